//! What every box shows of the host: its programs, its harmless settings, a few devices.

use std::path::Path;

use super::etc::SHOWN;
use super::fault::{IsolateFault, at};
use super::identity::Owner;
use super::plan::{Access, Inode, Item, Tree};

/// The host's programs, its harmless settings and the devices that every program expects.
pub(crate) fn items() -> Result<Vec<Item>, IsolateFault> {
    let programs = PROGRAMS.iter().map(|path| (*path, Access::ReadOnly));
    let settings = SHOWN.iter().map(|path| (*path, Access::ReadOnly));
    let devices = DEVICES.iter().map(|path| (*path, Access::Device));
    let mut items = Vec::new();
    for (path, access) in programs.chain(settings).chain(devices) {
        items.extend(item(Path::new(path), access)?);
    }
    Ok(items)
}

fn item(path: &Path, access: Access) -> Result<Option<Item>, IsolateFault> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at("look at", path.display().to_string())(error)),
    };
    if found.is_symlink() {
        let to = std::fs::read_link(path).map_err(at("read", path.display().to_string()))?;
        let at = path.to_owned();
        return Ok(Some(Item::Link { at, to }));
    }
    Ok(Some(Item::Tree(Tree {
        source: path.to_owned(),
        at: path.to_owned(),
        folder: found.is_dir(),
        access,
        owner: Owner::of(&found),
        inode: Inode::of(&found),
    })))
}

const PROGRAMS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

#[cfg(test)]
mod tests {
    use super::{Access, Item, items};

    #[test]
    fn programs_are_read_only_and_only_devices_are_devices() {
        let items = items().expect("the host can be looked at");
        assert!(items.len() > 10, "{}", items.len());
        for item in items {
            let Item::Tree(tree) = item else { continue };
            let device = tree.at.starts_with("/dev");
            let expected = if device { Access::Device } else { Access::ReadOnly };
            assert_eq!(tree.access, expected, "{}", tree.at.display());
        }
    }
}
