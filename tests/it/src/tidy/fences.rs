//! Fences: what is done in one place only, and the order of the steps.

use anyhow::{Result, ensure};

use super::sources::{self, Source};

pub(super) fn one_place() -> Result<()> {
    let mut findings = Vec::new();
    for source in sources::rust()?.iter().filter(|source| !source.path.starts_with("tests/")) {
        let code = source.code();
        for fence in &FENCES {
            let outside = !fence.places.iter().any(|place| source.is_in(place));
            let inside = source.path.starts_with(fence.within);
            for word in fence.words.iter().filter(|word| inside && outside && code.contains(**word)) {
                findings.push(format!(
                    "{} has `{word}`: {} only in {}",
                    source.path,
                    fence.deed,
                    fence.places.join(", ")
                ));
            }
        }
    }
    sources::none_of(&findings)
}

pub(super) fn steps_in_order() -> Result<()> {
    let mut findings = Vec::new();
    let mut seen = 0;
    for source in sources::rust()? {
        for (home, journey) in [("gateway/src/flow", &FLOW[..]), ("boxd/src/launch", &LAUNCH[..])] {
            let Some(at) = journey.iter().position(|step| source.is_in(&format!("{home}/{step}"))) else {
                continue;
            };
            seen += 1;
            let later = journey[at + 1..].iter().filter(|step| names_step(&source.code(), home, step));
            findings.extend(later.map(|step| format!("{} names the later step {step}", source.path)));
        }
    }
    ensure!(seen >= FLOW.len() + LAUNCH.len(), "saw only {seen} files of steps");
    sources::none_of(&findings)
}

pub(super) fn parts_below_steps() -> Result<()> {
    let sources = sources::rust()?;
    let mut findings = Vec::new();
    for (home, above, words) in [
        (
            "gateway/src/",
            &["gateway/src/main", "gateway/src/lib", "gateway/src/house", "gateway/src/flow", "gateway/src/cli"][..],
            ["flow::", "mod flow"],
        ),
        ("boxd/src/", &["boxd/src/main", "boxd/src/doctor", "boxd/src/launch"][..], ["launch::", "mod launch"]),
    ] {
        let parts: Vec<&Source> =
            sources.iter().filter(|s| s.path.starts_with(home) && !above.iter().any(|place| s.is_in(place))).collect();
        ensure!(parts.len() >= 3, "saw only {} parts in {home}", parts.len());
        for part in parts {
            let code = part.code();
            findings.extend(
                words
                    .iter()
                    .filter(|word| code.contains(**word))
                    .map(|word| format!("{} names a step: {word}", part.path)),
            );
        }
    }
    sources::none_of(&findings)
}

fn names_step(code: &str, home: &str, step: &str) -> bool {
    let journey = home.rsplit('/').next().unwrap_or_default();
    [format!("{journey}::{step}"), format!("super::{step}")].iter().any(|path| {
        code.match_indices(path.as_str())
            .any(|(at, _)| !code[at + path.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    })
}

/// A deed, the words that betray it, where it counts, and where it is allowed.
struct Fence {
    deed: &'static str,
    words: &'static [&'static str],
    within: &'static str,
    places: &'static [&'static str],
}

const FENCES: [Fence; 6] = [
    Fence { deed: "certificates are made", words: &["rcgen::"], within: "", places: &["gateway/src/ca"] },
    Fence {
        deed: "TLS is configured",
        words: &["ClientConfig::builder", "ServerConfig::builder", ".dangerous()"],
        within: "",
        places: &["gateway/src/tls"],
    },
    Fence {
        deed: "names are looked up and addresses dialled",
        words: &[
            "TcpStream::connect",
            "TcpSocket::",
            "lookup_host",
            "to_socket_addrs",
            "ToSocketAddrs",
            "hickory_resolver",
        ],
        within: "",
        // The shim dials the box's own loopback, boxd its door at an address, and neither a name.
        places: &["gateway/src/dial", "shim/src/near", "boxd/src/network_door"],
    },
    Fence {
        deed: "memory safety is our own business",
        words: &["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "allow(unsafe_code", "expect(unsafe_code"],
        within: "",
        places: &["boxd/src/sys"],
    },
    Fence {
        deed: "files are opened for writing",
        words: &["OpenOptions", "File::create", "fs::write("],
        within: "gateway/",
        places: &["gateway/src/ledger", "gateway/src/files"],
    },
    Fence {
        deed: "children are waited for",
        words: &["waitpid(", "waitid(", "tokio::process"],
        within: "boxd/",
        places: &["boxd/src/reaper", "boxd/src/isolate", "boxd/src/doctor", "boxd/src/sys"],
    },
];

const FLOW: [&str; 8] = ["accept", "identify", "claim", "judge", "intercept", "inject", "relay", "record"];
const LAUNCH: [&str; 5] = ["claim", "seed", "shim", "supervise", "report"];
