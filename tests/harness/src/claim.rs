//! The claim spoken by a test instead of boxd: takes a run at a door, so that raw bytes can be sent with its token.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use box_spec::wire::Identity;
use box_spec::{Attestation, BoxFacts, Claim, ClaimRefused, FromBox, FromHouse, Layer, Layers, Report, Spec, wire};

use crate::network::Wire;

/// A run that this test holds. Dropped, the claim breaks.
pub struct Claimed {
    pub spec: Spec,
    stream: BufReader<Wire>,
}

/// The house's answer to a claim.
pub enum Answer {
    Taken(Box<Claimed>),
    Refused { status: u16, body: Option<ClaimRefused> },
}

impl Claimed {
    /// Claims, attests as a good box would, and waits for the word to go.
    ///
    /// # Errors
    ///
    /// When the claim or the attestation is refused.
    pub fn take(door: &Path) -> Result<Self> {
        match Self::ask(door, &claim())? {
            Answer::Refused { status, body } => {
                bail!("the claim was refused with {status}: {body:?}")
            }
            Answer::Taken(claimed) => claimed.attested(),
        }
    }

    /// Attests as a good box would, and waits for the word to go.
    ///
    /// # Errors
    ///
    /// When the attestation is refused.
    pub fn attested(mut self) -> Result<Self> {
        self.say(&FromBox::Attest(attestation()))?;
        match self.next(WAIT)? {
            FromHouse::Go => Ok(self),
            other => bail!("no word to go, but {other:?}"),
        }
    }

    /// Claims with these words and does no more.
    ///
    /// # Errors
    ///
    /// When the door does not answer as a door.
    pub fn ask(door: &Path, claim: &Claim) -> Result<Answer> {
        let body = serde_json::to_vec(claim).context("write the claim")?;
        Self::ask_raw(door, &body)
    }

    /// Claims with these bytes for a body.
    ///
    /// # Errors
    ///
    /// When the door does not answer as a door.
    pub fn ask_raw(door: &Path, body: &[u8]) -> Result<Answer> {
        let wire = UnixStream::connect(door).map(Wire::Socket).context("connect the door")?;
        Self::ask_on(wire, body, |_| Ok(String::new()))
    }

    /// Claims with these words at a TCP door. `prove` makes the proof of what the door says of itself, and gives nothing for
    /// a claim without any.
    ///
    /// # Errors
    ///
    /// When the door does not answer as a door.
    pub fn ask_at(door: SocketAddr, claim: &Claim, prove: impl Fn(&Identity) -> Option<String>) -> Result<Answer> {
        let body = serde_json::to_vec(claim).context("write the claim")?;
        Self::ask_on(Wire::to(door)?, &body, |wire| {
            let identity = crate::network::identity(wire)?;
            Ok(prove(&identity).map(|proof| format!("{}: {proof}\r\n", wire::PROOF_HEADER)).unwrap_or_default())
        })
    }

    fn ask_on(wire: Wire, body: &[u8], prove: impl Fn(&mut BufReader<Wire>) -> Result<String>) -> Result<Answer> {
        wire.set_read_timeout(WAIT).context("set a deadline")?;
        let mut stream = BufReader::new(wire);
        let proof = prove(&mut stream)?;
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: door\r\nConnection: Upgrade\r\nUpgrade: {}\r\n{proof}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            wire::CLAIM_PATH,
            wire::CLAIM_UPGRADE,
            body.len()
        );
        stream
            .get_mut()
            .write_all(head.as_bytes())
            .and_then(|()| stream.get_mut().write_all(body))
            .context("send the claim")?;
        let (status, length) = read_head(&mut stream)?;
        if status != 101 {
            let mut body = vec![0; length.min(wire::LINE_LIMIT)];
            stream.read_exact(&mut body).context("read the refusal")?;
            return Ok(Answer::Refused { status, body: serde_json::from_slice(&body).ok() });
        }
        match next(&mut stream)? {
            FromHouse::Spec(spec) => Ok(Answer::Taken(Box::new(Self { spec: *spec, stream }))),
            other => bail!("no spec, but {other:?}"),
        }
    }

    /// # Errors
    ///
    /// When the claim is broken.
    pub fn say(&mut self, word: &FromBox) -> Result<()> {
        let mut line = serde_json::to_vec(word).context("write a word")?;
        line.push(b'\n');
        self.say_raw(&line)
    }

    /// # Errors
    ///
    /// When the claim is broken.
    pub fn say_raw(&mut self, line: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(line).context("say a word")
    }

    /// The house's next word.
    ///
    /// # Errors
    ///
    /// When none comes in time, or the claim was ended.
    pub fn next(&mut self, time: Duration) -> Result<FromHouse> {
        self.stream.get_ref().set_read_timeout(time).context("set a deadline")?;
        next(&mut self.stream)
    }

    /// Reports a good end and waits until it is settled.
    ///
    /// # Errors
    ///
    /// When the house does not settle it.
    pub fn report(mut self) -> Result<box_spec::Settled> {
        self.say(&FromBox::Report(report()))?;
        match self.next(WAIT)? {
            FromHouse::Settled(settled) => Ok(settled),
            other => bail!("not settled, but {other:?}"),
        }
    }

    /// The proxy credential of this run.
    #[must_use]
    pub fn token(&self) -> &str {
        self.spec.token.expose()
    }
}

/// A claim as a good box makes it, for whatever agent its house says.
#[must_use]
pub fn claim() -> Claim {
    Claim {
        protocol: wire::PROTOCOL,
        agent: None,
        namespace_init: true,
        boxd: "test".into(),
        reattach: None,
        command: false,
    }
}

/// An attestation as a good box makes it.
#[must_use]
pub fn attestation() -> Attestation {
    Attestation {
        locked: true,
        non_dumpable: true,
        no_new_privileges: true,
        namespace_init: true,
        pinned: false,
        trusts_house: true,
        secret_free: true,
        layers: Layers { filter: Layer::On, capabilities: Layer::On, scope: Layer::On, limits: Layer::On },
        uid: 1000,
        agent_version: None,
        facts: BoxFacts::default(),
    }
}

/// A report of a good end.
#[must_use]
pub fn report() -> Report {
    Report {
        ended_by: box_spec::EndedBy::Exit,
        exit_code: 0,
        signal: None,
        agent_spoke: true,
        agent_error: None,
        error: None,
        stdout: box_spec::StdoutRecord { bytes: 0, sha256: EMPTY.into(), kept: true },
        orphans: 0,
        lingered: false,
        agent_version: None,
        started: "2026-01-31T23:59:58Z".into(),
        ended: "2026-01-31T23:59:59Z".into(),
    }
}

pub(crate) fn read_head(stream: &mut BufReader<Wire>) -> Result<(u16, usize)> {
    let mut status = None;
    let mut length = 0;
    loop {
        let mut line = String::new();
        let read = stream.take(64 * 1024).read_line(&mut line).context("read the door's answer")?;
        let line = line.trim_end();
        if read == 0 {
            bail!("the door closed without an answer");
        }
        if line.is_empty() {
            return Ok((status.context("find the status")?, length));
        }
        match (status, line.split_once(':')) {
            (None, _) => {
                status = Some(line.split(' ').nth(1).and_then(|code| code.parse().ok()).context("read the status")?)
            }
            (Some(_), Some((name, value))) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().context("read the length")?;
            }
            _ => {}
        }
    }
}

fn next(stream: &mut BufReader<Wire>) -> Result<FromHouse> {
    let mut line = Vec::new();
    stream.take(wire::LINE_LIMIT as u64).read_until(b'\n', &mut line).context("wait for the house's word")?;
    if line.is_empty() {
        bail!("the house ended the claim");
    }
    serde_json::from_slice(&line).with_context(|| format!("parse {}", String::from_utf8_lossy(&line)))
}

const WAIT: Duration = Duration::from_secs(10);
/// SHA-256 of nothing.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
