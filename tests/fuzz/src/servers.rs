//! Servers: what the many kinds of them could make of a path, each a row of small steps in its own order. Written without a
//! look at how the gateway reads paths.

/// Every path that some row of at most four steps comes to, dots resolved at its end.
pub(crate) fn readings(raw: &str) -> Vec<String> {
    let mut all = vec![raw.to_owned()];
    let mut from = 0;
    for _ in 0..4 {
        let until = all.len();
        for at in from..until {
            for step in STEPS {
                let next = step(&all[at]);
                if !all.contains(&next) {
                    all.push(next);
                }
            }
        }
        from = until;
    }
    all.iter().map(|path| dots(path)).collect()
}

type Step = fn(&str) -> String;
const STEPS: [Step; 5] = [decoded, dots, merged, bare, slashed];

/// `%XX` once; what is no UTF-8 then is nobody's path.
fn decoded(path: &str) -> String {
    let (bytes, mut out, mut at) = (path.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let escape =
            bytes.get(at + 1..at + 3).filter(|digits| bytes[at] == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        match escape.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| path.to_owned())
}

/// RFC 3986 §5.2.4.
fn dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (at, segment) in segments.iter().enumerate() {
        let is_last = at + 1 == segments.len();
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

fn merged(path: &str) -> String {
    let mut out = path.to_owned();
    while out.contains("//") {
        out = out.replace("//", "/");
    }
    out
}

/// Without `;parameters`.
fn bare(path: &str) -> String {
    let segments = path.split('/').map(|segment| segment.split(';').next().unwrap_or_default());
    segments.collect::<Vec<_>>().join("/")
}

fn slashed(path: &str) -> String {
    path.replace('\\', "/")
}
