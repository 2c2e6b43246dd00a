//! Facts: what this box is, as its kernel and its image tell it. What cannot be read is left empty.

use box_spec::{BoxFacts, Searched};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::sys::utsname::uname;

use crate::lock::Network;

/// Looks around.
pub(crate) fn look(network: &Network, searched: Searched) -> BoxFacts {
    let status = read("/proc/self/status");
    let field = |name: &str| status_field(&status, name).map_or_else(String::new, ToOwned::to_owned);
    BoxFacts {
        interfaces: listed(network.interfaces.iter().map(String::as_str)),
        routes: listed(network.routes.iter().map(String::as_str)),
        name_servers: listed(name_servers(&read("/etc/resolv.conf"))),
        capabilities: field("CapEff"),
        bounding: field("CapBnd"),
        filters: status_field(&status, "Seccomp_filters").and_then(|count| count.parse().ok()),
        image: pretty_name(&read("/etc/os-release")).or_else(|| pretty_name(&read("/usr/lib/os-release"))),
        kernel: uname().map_or_else(|_| String::new(), |told| cut(&told.release().to_string_lossy())),
        read_only_root: statvfs("/").is_ok_and(|root| root.flags().contains(FsFlags::ST_RDONLY)),
        searched,
    }
}

/// The first bytes of a file: an image may put anything there.
fn read(path: &str) -> String {
    let mut text = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| std::io::Read::read_to_end(&mut std::io::Read::take(file, LIMIT), &mut text));
    read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&text).into_owned())
}

fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn name_servers(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| *word == "nameserver").and_then(|_| words.next())
    })
}

fn pretty_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(cut(value.trim().trim_matches(['"', '\'']))).filter(|name| !name.is_empty())
}

fn listed<'a>(items: impl Iterator<Item = &'a str>) -> Vec<String> {
    items.take(MOST).map(cut).collect()
}

/// What an image can choose is cut to a limit, and holds nothing that a terminal would obey.
fn cut(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(LENGTH).collect()
}

const LIMIT: u64 = 16 * 1024;
const MOST: usize = 16;
const LENGTH: usize = 100;

#[cfg(test)]
mod tests {
    use super::{cut, name_servers, pretty_name, status_field};

    #[test]
    fn what_the_image_says_is_read_and_cut() {
        assert_eq!(status_field("CapEff:\t00a8\nCapBnd:\t1\n", "CapBnd"), Some("1"));
        assert_eq!(status_field("CapEff:\t00a8\n", "Cap"), None);
        let resolver = "# nameserver 9.9.9.9\nnameserver 127.0.0.11\noptions ndots:0\nnameserver ::1";
        assert_eq!(name_servers(resolver).collect::<Vec<_>>(), ["127.0.0.11", "::1"]);
        assert_eq!(pretty_name("ID=x\nPRETTY_NAME=\"Some \u{1b}Linux 3\"\n").as_deref(), Some("Some Linux 3"));
        assert_eq!(pretty_name("PRETTY_NAME=\"\"\n"), None);
        assert_eq!(cut(&"x".repeat(500)).len(), 100);
    }
}
