//! Fuzz targets: what reads bytes that others wrote is given any bytes, and what must hold for all of them is asserted. Each
//! target is a function; libFuzzer looks for an input that breaks it (`cargo xtask fuzz`), and a unit test holds it to the corpus.

mod authority;
mod head;
mod path;
mod servers;
mod shim;
mod json;
mod events;
mod coding;
mod body;
mod rpc;
mod echo;
mod secrets;
mod websocket;
mod config;
mod ledger;

/// A reader, and what must hold for it.
#[derive(Clone, Copy)]
pub struct Target {
    /// As the folder of its corpus.
    pub name: &'static str,
    /// Panics where something does not hold.
    pub holds: fn(&[u8]),
}

pub const TARGETS: &[Target] = &[
    Target { name: "authority", holds: authority::holds },
    Target { name: "head", holds: head::holds },
    Target { name: "path", holds: path::holds },
    Target { name: "shim", holds: shim::holds },
    Target { name: "json", holds: json::holds },
    Target { name: "coding", holds: coding::holds },
    Target { name: "body", holds: body::holds },
    Target { name: "rpc", holds: rpc::holds },
    Target { name: "echo", holds: echo::holds },
    Target { name: "websocket", holds: websocket::holds },
    Target { name: "config", holds: config::holds },
    Target { name: "ledger", holds: ledger::holds },
];

/// Where an input says that its text is cut: a count, so many sizes, then the text.
fn cut(data: &[u8]) -> (&[u8], &[u8]) {
    let Some((&count, rest)) = data.split_first() else { return (&[], &[]) };
    rest.split_at(usize::from(count % 8).min(rest.len()))
}

/// The text in pieces of these sizes, over and over; without sizes whole.
fn pieces<'a>(sizes: &'a [u8], mut text: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut turn = sizes.iter().cycle();
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let size = turn.next().map_or(text.len(), |size| usize::from(*size).max(1));
        let (piece, rest) = text.split_at(size.min(text.len()));
        text = rest;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::TARGETS;

    #[test]
    fn the_corpus_holds() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let files = |folder: &Path| {
            let entries = std::fs::read_dir(folder).expect("a folder of the corpus");
            let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
            paths.sort();
            paths
        };
        let mut size = 0;
        for target in TARGETS {
            let inputs = files(&folder.join(target.name));
            assert!(inputs.len() > 10, "{}: {} inputs", target.name, inputs.len());
            for input in inputs {
                let bytes = std::fs::read(&input).expect("an input");
                size += bytes.len();
                let held = std::panic::catch_unwind(|| (target.holds)(&bytes));
                assert!(held.is_ok(), "{}: {}", input.display(), bytes.escape_ascii());
            }
        }
        assert_eq!(files(&folder).len(), TARGETS.len(), "each folder of the corpus has its target");
        assert!(size <= 1 << 20, "the corpus has {size} bytes: minimise it with `cargo xtask fuzz --keep`");
    }
}
