//! The text of the file: `NAME='value'`, a line each, so that a shell can take it in with `set -a; . FILE`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use shim::Loopback;

use super::{Live, may_be_told};
use crate::environment::Variables;

/// `None` where a value is no line of text.
pub(super) fn written(live: &Live) -> Option<String> {
    let mut text = String::from(OPENING);
    for (name, value) in variables(live)? {
        if value.contains(['\n', '\r', '\0']) {
            return None;
        }
        text += &format!("{name}='{}'\n", value.replace('\'', QUOTE));
    }
    Some(text)
}

/// Reads what [`written`] gave; the text says why it is none of it.
pub(super) fn read(bytes: &[u8]) -> Result<Live, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no UTF-8".to_owned())?;
    let mut values = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.split_once('=').ok_or("a line is no variable")?;
        let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
        let value = value.ok_or_else(|| format!("{} is not quoted", shown(name)))?;
        if values.insert(name.to_owned(), value.replace(QUOTE, "'")).is_some() {
            return Err(format!("{} is there twice", shown(name)));
        }
    }
    let live = understood(&values)?;
    // Whatever else it says would lead the command elsewhere.
    if written(&live).as_deref() != Some(text) {
        return Err("it says something else than a run says of itself".to_owned());
    }
    Ok(live)
}

fn understood(values: &BTreeMap<String, String>) -> Result<Live, String> {
    let value = |name: &str| values.get(name).cloned().ok_or_else(|| format!("{name} is missing"));
    let path = |name: &str| match value(name).map(PathBuf::from) {
        Ok(path) if path.is_absolute() => Ok(path),
        Ok(_) => Err(format!("{name} is no absolute path")),
        Err(missing) => Err(missing),
    };
    let wrong = |name: &str| format!("{name} is none");
    let mut live = Live {
        run: value("BOXGATE_RUN")?.parse().map_err(|_| wrong("BOXGATE_RUN"))?,
        box_id: value(BOX)?.parse().map_err(|_| wrong(BOX))?,
        agent: value(AGENT)?.parse().map_err(|_| wrong(AGENT))?,
        network: value(NETWORK)?,
        shim: loopback(&value(SHIM)?)?,
        ca: path("NODE_EXTRA_CA_CERTS")?,
        bundle: path("SSL_CERT_FILE")?,
        home: path("HOME")?,
        session: path("BOXGATE_SESSION_DIR")?,
        workspace: values.contains_key("BOXGATE_WORKSPACE").then(|| path("BOXGATE_WORKSPACE")).transpose()?,
        ceiling: values.get("BOXGATE_CEILING_MINUTES").cloned(),
        more: Vec::new(),
    };
    let known = variables(&live).unwrap_or_default();
    let more = values.iter().filter(|(name, _)| !known.contains_key(*name));
    for (name, value) in more {
        if !may_be_told(name, value) {
            return Err(format!("{} is no variable of a run's", shown(name)));
        }
        live.more.push((name.clone(), value.clone()));
    }
    Ok(live)
}

/// Only an address that leads nowhere but to this box.
fn loopback(text: &str) -> Result<Loopback, String> {
    let address: SocketAddrV4 = text.parse().map_err(|_| format!("{SHIM} is no address"))?;
    match *address.ip() == Ipv4Addr::LOCALHOST && address.port() != 0 {
        true => Ok(Loopback::port(address.port())),
        false => Err(format!("{SHIM} is not 127.0.0.1: no shim listens anywhere else")),
    }
}

/// All of the lines, by name; `None` where a value is no UTF-8.
fn variables(live: &Live) -> Option<BTreeMap<String, String>> {
    let environment = live.environment(&Variables::default(), &Variables::default());
    let text = |text: &std::ffi::OsStr| text.to_str().map(ToOwned::to_owned);
    let mut all: BTreeMap<String, String> =
        environment.iter().map(|(name, value)| Some((text(name)?, text(value)?))).collect::<Option<_>>()?;
    all.insert(BOX.to_owned(), live.box_id.to_string());
    all.insert(AGENT.to_owned(), live.agent.to_string());
    all.insert(NETWORK.to_owned(), live.network.clone());
    all.insert(SHIM.to_owned(), format!("127.0.0.1:{}", live.shim.number()));
    Some(all)
}

/// A name as messages show it: the file may hold anything.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(40).collect()
}

const OPENING: &str = "# The run that is under way in this box, without any secret: set -a; . this file\n";
const BOX: &str = "BOXGATE_BOX";
const AGENT: &str = "BOXGATE_AGENT";
const NETWORK: &str = "BOXGATE_NETWORK";
const SHIM: &str = "BOXGATE_SHIM";
/// An apostrophe within apostrophes.
const QUOTE: &str = "'\\''";

#[cfg(test)]
mod tests {
    use box_spec::Agent;
    use shim::Loopback;

    use super::{Live, read, written};

    fn live() -> Live {
        let more = [
            ("ANTHROPIC_API_KEY", "sk-ant-api03-boxgate-sentinel-a"),
            ("CLAUDE_CONFIG_DIR", "/s/claude"),
            ("PACKAGES_PAT", "boxgate-sentinel-b"),
        ];
        Live {
            run: "20260131T235959-0a1b2c3d".parse().expect("a run id"),
            box_id: "one".parse().expect("a box id"),
            agent: Agent::Claude,
            network: "net:[4026531840]".to_owned(),
            shim: Loopback::port(3128),
            ca: "/s/it's/trust/ca.pem".into(),
            bundle: "/s/it's/trust/bundle.pem".into(),
            home: "/home/a".into(),
            session: "/s/it's".into(),
            workspace: Some("/work space".into()),
            ceiling: Some("1.50".to_owned()),
            more: more.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        }
    }

    #[test]
    fn what_a_run_tells_is_read_as_it_was() {
        let text = written(&live()).expect("written");
        assert_eq!(read(text.as_bytes()), Ok(live()));
        assert!(text.contains("\nHTTPS_PROXY='http://127.0.0.1:3128'\n"), "{text}");
        assert_eq!(written(&Live { home: "/a\nb".into(), ..live() }), None);
    }

    #[test]
    fn what_the_agent_may_have_planted_is_refused_by_name() {
        let text = written(&live()).expect("written");
        for (from, to, why) in [
            ("BOXGATE_SHIM='127.0.0.1:3128'", "BOXGATE_SHIM='10.0.0.1:3128'", "BOXGATE_SHIM is not 127.0.0.1"),
            ("BOXGATE_SHIM='127.0.0.1:3128'", "BOXGATE_SHIM='evil.test:3128'", "BOXGATE_SHIM is no address"),
            ("BOXGATE_SHIM='127.0.0.1:3128'", "BOXGATE_SHIM='127.0.0.1:0'", "BOXGATE_SHIM is not 127.0.0.1"),
            ("HTTPS_PROXY='http://127.0.0.1:3128'", "HTTPS_PROXY='http://10.0.0.1:1'", "something else"),
            ("NO_PROXY='localhost", "NO_PROXY='*,localhost", "something else"),
            ("HOME='/home/a'", "HOME='home'", "HOME is no absolute path"),
            ("HOME='/home/a'\n", "", "HOME is missing"),
            ("HOME='/home/a'\n", "HOME=/home/a\n", "HOME is not quoted"),
            ("HOME='/home/a'\n", "HOME='/home/a'\nHOME='/home/a'\n", "HOME is there twice"),
            ("HOME='/home/a'\n", "HOME='/home/a'; curl evil.test'\n", "something else"),
            ("HOME='/home/a'\n", "HOME='/home/a'\nLD_PRELOAD='/tmp/x.so'\n", "LD_PRELOAD is no variable"),
            ("HOME='/home/a'\n", "HOME='/home/a'\nANTHROPIC_BASE_URL='http://x'\n", "ANTHROPIC_BASE_URL is no"),
            ("HOME='/home/a'\n", "HOME='/home/a'\nNODE_TLS_REJECT_UNAUTHORIZED='0'\n", "NODE_TLS_REJECT_UN"),
            ("sk-ant-api03-boxgate-sentinel-a", "sk-ant-api03-real", "ANTHROPIC_API_KEY is no variable"),
            ("# The run", "curl evil.test\n# The run", "a line is no variable"),
            ("# The run", "# A run", "something else"),
        ] {
            assert!(text.contains(from), "{from}");
            let fault = read(text.replacen(from, to, 1).as_bytes()).expect_err(to);
            assert!(fault.contains(why), "{to}: {fault}");
        }
    }
}
