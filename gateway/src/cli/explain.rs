//! `gateway explain`: what the policy of a configuration says to one request, why each grant agrees or not, and what would
//! let it through. Asks no gateway and looks nothing up.

mod body;

use std::fmt::{self, Write};
use std::path::PathBuf;

use box_spec::BoxId;
use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Uri};

use crate::config::{self, Config};
use crate::flow::judge::{self, Decision, Observed};
use crate::host::{Target, TargetFault};
use crate::policy::query::Stray;
use crate::policy::{Ask, Fit, Grant, Missed, NormalPath, Policy, Scheme};
use crate::refusal::{Reason, Refusal};
use crate::vault::{SecretName, Vault};

use super::Exit;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The house's configuration, a TOML file
    #[arg(long, value_name = "FILE", env = "BOXGATE_CONFIG")]
    config: PathBuf,
    /// The box that asks
    #[arg(long = "box", value_name = "BOX")]
    box_id: BoxId,
    /// A header of the request besides Host; may be given again
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(HeaderName, HeaderValue)>,
    /// A file with the request's body, which is judged too
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    #[arg(value_parser = method)]
    method: Method,
    /// An https:// or http:// address
    url: Uri,
}

/// Why there is nothing to explain.
#[derive(Debug, thiserror::Error)]
pub enum ExplainFault {
    #[error(transparent)]
    Config(#[from] config::ConfigFaults),
    #[error("no box {0} in this configuration; it has {1}")]
    NoBox(BoxId, String),
    #[error("{0} is no whole address: write https://HOST/PATH")]
    NotWhole(Uri),
    #[error("read the body {}", .0.display())]
    Body(PathBuf, #[source] std::io::Error),
    #[error("read the host of the address")]
    Host(#[source] TargetFault),
}

/// What is said, and whether the request would be let through, or answered by the house.
///
/// # Errors
/// The configuration has faults, or there is no such box or address.
pub fn run(arguments: Arguments) -> Result<(Exit, String), ExplainFault> {
    let Arguments { config, box_id, header, body, method, url } = arguments;
    let Config { boxes, policy, secrets, .. } = config::load(&config)?;
    if !boxes.iter().any(|of| of.id == box_id) {
        let known: Vec<&str> = boxes.iter().map(|of| of.id.as_str()).collect();
        return Err(ExplainFault::NoBox(box_id, if known.is_empty() { "none".to_owned() } else { known.join(", ") }));
    }
    let asked = Asked::new(box_id, method, &url, header)?;
    // What is malformed was a fault of the file already.
    let vault = Vault::open(secrets).ok();
    let body = body.map(|file| std::fs::read(&file).map_err(|source| ExplainFault::Body(file, source))).transpose()?;
    Ok(asked.explained(&policy, body.as_deref(), |name| outage(vault.as_ref(), name)))
}

/// One request of a box, as its head would arrive.
struct Asked {
    box_id: BoxId,
    target: Target,
    scheme: Scheme,
    head: Parts,
}

impl Asked {
    fn new(
        box_id: BoxId,
        method: Method,
        url: &Uri,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<Self, ExplainFault> {
        let scheme = match url.scheme_str() {
            Some("https") => Scheme::Https,
            Some("http") => Scheme::Http,
            _ => return Err(ExplainFault::NotWhole(url.clone())),
        };
        let authority = url.authority().map_or("", http::uri::Authority::as_str);
        let target = Target::from_authority(authority, Some(scheme.default_port())).map_err(ExplainFault::Host)?;
        let path = url.path_and_query().cloned();
        let asked = Request::builder().method(method).uri(path.map_or_else(|| Uri::from_static("/"), Uri::from));
        // Each header beside those before it: two lengths are refused, and one of them would not be.
        let headers = headers.into_iter().filter(|(name, _)| *name != HOST);
        let asked = headers.fold(asked, |asked, (name, value)| asked.header(name, value));
        let (head, ()) = asked.body(()).map_err(|_| ExplainFault::NotWhole(url.clone()))?.into_parts();
        Ok(Self { box_id, target, scheme, head })
    }

    fn explained(
        &self,
        policy: &Policy,
        body: Option<&[u8]>,
        outage: impl Fn(&SecretName) -> Option<String>,
    ) -> (Exit, String) {
        let Self { box_id, target, scheme, head } = self;
        let ruling = judge::port(policy, box_id, target, *scheme)
            .and_then(|()| judge::foresee(policy, box_id, target, *scheme, head));
        let mut out = Told(String::new());
        let exit = match ruling {
            Ok(Decision::Grant(grant, observed)) => {
                if let Some(Err(refusal)) = body.map(|body| body::judge(target, &grant, head, body)) {
                    out.refused(self, &refusal);
                    body::remedy(&grant, &refusal, &mut out);
                    return (Exit::Refused, out.0);
                }
                out.line(format_args!("allowed: {self}, by grant {:?}", grant.name.as_str()));
                if let Some(Observed { reason, grant }) = observed {
                    out.line(format_args!(
                        "  it is written down as what would be refused: {reason}, {:?}",
                        grant.as_str()
                    ));
                }
                out.granted(&grant, outage);
                match body {
                    Some(_) => out.line(format_args!(
                        "  the body passes, but for a real secret, which only the gateway could find in it"
                    )),
                    None => body::rules(target, &grant, head, &mut out),
                }
                Exit::Done
            }
            Ok(Decision::Local(route)) => {
                out.line(format_args!("answered: {self}, by the house itself ({}): nothing leaves", route.code()));
                return (Exit::Done, out.0);
            }
            Err(refusal) => {
                out.refused(self, &refusal);
                self.remedy(policy, &refusal, &mut out);
                Exit::Refused
            }
        };
        self.grants(policy, &mut out);
        (exit, out.0)
    }

    fn grants(&self, policy: &Policy, out: &mut Told) {
        let Some(path) = self.path() else { return };
        let ask = self.ask(&path);
        out.line(format_args!("the grants, in their order; the first that matches decides:"));
        for (grant, fit) in policy.fits(&ask) {
            let part = grant.part.as_ref().map(|part| format!(" ({part})")).unwrap_or_default();
            out.line(format_args!("  {:<20} {}", format!("{}{part}", grant.name), Why { grant, fit }));
        }
        if policy.grants().is_empty() {
            out.line(format_args!("  there is none"));
        }
    }

    /// What an operator would write to let it through, where a grant can.
    fn remedy(&self, policy: &Policy, refusal: &Refusal, out: &mut Told) {
        if refusal.reason() == Reason::Denied {
            let denial = refusal.grant().unwrap_or_default();
            out.line(format_args!("to allow it: take it out of what {denial:?} denies, and grant it"));
        }
        if refusal.reason() == Reason::BodyTooLarge {
            out.line(format_args!("to allow it by grant {:?}, give that:", refusal.grant().unwrap_or_default()));
            let length = self.head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
            out.line(format_args!("    max_body = {}", length.unwrap_or_default()));
        }
        if !matches!(refusal.reason(), Reason::NoGrant | Reason::PortRefused) {
            return;
        }
        let Some(path) = self.path() else { return };
        let ask = self.ask(&path);
        let near = |(grant, fit)| if let Fit::Missed(missed) = fit { Some((grant, missed)) } else { None };
        // A part of a preset takes no other keys: whoever wants more writes a grant beside it.
        let widened = policy.fits(&ask).filter(|(grant, _)| grant.is_of_its_own() && !grant.denies).filter_map(near);
        if let Some((grant, missed)) = widened.max_by_key(|(_, missed)| *missed) {
            out.line(format_args!("to allow it by grant {:?}, give that:", grant.name.as_str()));
            match missed {
                Missed::Port if self.scheme == Scheme::Http && grant.secret.is_some() => {
                    out.line(format_args!("    nothing: a secret never travels in plain"));
                }
                Missed::Port => self.port(out),
                Missed::Path => self.paths(grant, &path, out),
                Missed::Method => self.methods(grant, out),
                Missed::Query => self.query(grant, out),
                Missed::Header => out.line(format_args!("    nothing: send all of {}", names(grant))),
            }
        }
        out.line(format_args!("to allow it by a grant of its own:"));
        out.line(format_args!("    [[grant]]"));
        out.line(format_args!("    name = {}", quoted(&format!("{}-{}", self.box_id, self.target.host()))));
        out.line(format_args!("    boxes = [{}]", quoted(self.box_id.as_str())));
        out.line(format_args!("    hosts = [{}]", quoted(&self.target.host().to_string())));
        self.port(out);
        out.line(format_args!("    methods = [{}]", quoted(self.head.method.as_str())));
        out.line(format_args!("    paths = [{}]", quoted(path.raw())));
    }

    fn port(&self, out: &mut Told) {
        if self.target.port() != self.scheme.default_port() {
            out.line(format_args!("    ports = [{}]", self.target.port()));
        }
        if self.scheme == Scheme::Http {
            out.line(format_args!("    plain = true"));
        }
    }

    fn paths(&self, grant: &Grant, path: &NormalPath, out: &mut Told) {
        let had = grant.matching().paths.iter().flatten().map(crate::policy::PathPattern::as_str);
        let all: Vec<String> = had.chain([path.raw()]).map(quoted).collect();
        out.line(format_args!("    paths = [{}]", all.join(", ")));
    }

    fn methods(&self, grant: &Grant, out: &mut Told) {
        let had = grant.matching().methods.iter().flatten().map(Method::as_str);
        let all: Vec<String> = had.chain([self.head.method.as_str()]).map(quoted).collect();
        out.line(format_args!("    methods = [{}]", all.join(", ")));
    }

    fn query(&self, grant: &Grant, out: &mut Told) {
        let Some(keys) = &grant.matching().query else { return };
        let mut all: Vec<String> = keys.keys().map(quoted).collect();
        for stray in keys.strays(self.head.uri.query()) {
            match stray {
                Stray::Key(key) => all.push(quoted(&key)),
                Stray::Semicolon => {
                    return out
                        .line(format_args!("    nothing: write each `;` of the query as %3B, or a & in its place"));
                }
            }
        }
        out.line(format_args!("    query = [{}]", all.join(", ")));
    }

    fn path(&self) -> Option<NormalPath> {
        NormalPath::parse(self.head.uri.path()).ok()
    }

    fn ask<'a>(&'a self, path: &'a NormalPath) -> Ask<'a> {
        let upgrades = self.head.headers.contains_key(http::header::UPGRADE);
        let Self { box_id, target, scheme, head } = self;
        let (query, headers) = (head.uri.query(), Some(&head.headers));
        Ask { box_id, target, scheme: *scheme, method: &head.method, path, query, headers, upgrades }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { box_id, target, scheme, head } = self;
        write!(f, "{} {scheme}://{target}{} of box {box_id}", head.method, head.uri.path())
    }
}

/// What is said, line by line.
struct Told(String);

impl Told {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{line}");
    }

    fn refused(&mut self, asked: &Asked, refusal: &Refusal) {
        self.line(format_args!("refused: {asked}: {}, {}", refusal.reason().code(), refusal.inside()));
        self.line(format_args!("  {}", refusal.hint()));
    }

    fn granted(&mut self, grant: &Grant, outage: impl Fn(&SecretName) -> Option<String>) {
        match &grant.secret {
            Some(secret) => {
                self.line(format_args!(
                    "  the secret {:?} is put in, whatever credential the box sends",
                    secret.as_str()
                ));
                if let Some(outage) = outage(secret) {
                    self.line(format_args!(
                        "  but it cannot be used now, and the answer is credential-outage: {outage}"
                    ));
                }
            }
            None if grant.keeps_credentials => self.line(format_args!("  the box's own credentials are left in place")),
            None => self.line(format_args!("  nothing is put in, and credentials that the box sends are taken out")),
        }
        if let Some(most) = grant.max_body {
            self.line(format_args!("  a body of more than {most} bytes is refused, declared or not"));
        }
        match grant.unsafe_dial {
            Some(address) => self.line(format_args!("  {address} is dialled, whatever the name resolves to")),
            None => self.line(format_args!("  not looked at: where the name leads; a private address is refused then")),
        }
    }
}

/// Why a grant agrees or not.
struct Why<'a> {
    grant: &'a Grant,
    fit: Fit,
}

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let matching = self.grant.matching();
        match self.fit {
            Fit::Whole => f.write_str(match (self.grant.denies, self.grant.observes) {
                (false, false) => "matches",
                (false, true) => "matches where no other does, and is only observed",
                (true, false) => "denies it, whatever is granted",
                (true, true) => "denies it, and is only observed",
            }),
            Fit::OtherBox => f.write_str("is for other boxes"),
            Fit::OtherHost => {
                let hosts: Vec<String> = matching.hosts.iter().map(ToString::to_string).collect();
                write!(f, "is for other hosts: {}", hosts.join(", "))
            }
            Fit::Missed(missed) if self.grant.denies => {
                write!(f, "denies something else here: another {}", missed.as_str())
            }
            Fit::Missed(Missed::Port) => match &matching.ports {
                Some(ports) => {
                    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
                    write!(f, "has this host, but not this port and scheme: {}{}", ports.join(", "), plain(self.grant))
                }
                None => write!(f, "has this host, but not this port and scheme: those of https{}", plain(self.grant)),
            },
            Fit::Missed(Missed::Path) => {
                let paths: Vec<&str> =
                    matching.paths.iter().flatten().map(crate::policy::PathPattern::as_str).collect();
                write!(f, "has this host, but not this path: {}", paths.join(", "))
            }
            Fit::Missed(Missed::Method) => {
                let methods: Vec<&str> = matching.methods.iter().flatten().map(Method::as_str).collect();
                write!(f, "has this host, but not this method: {}", methods.join(", "))
            }
            Fit::Missed(Missed::Query) => {
                let keys: Vec<&str> = matching.query.iter().flat_map(|keys| keys.keys()).collect();
                let keys = if keys.is_empty() { "none at all".to_owned() } else { keys.join(", ") };
                write!(f, "has this host, but not these keys of the query: {keys}")
            }
            Fit::Missed(Missed::Header) => {
                write!(f, "has this host, but wants headers that are missing: {}", names(self.grant))
            }
        }
    }
}

fn names(grant: &Grant) -> String {
    let names: Vec<&str> = grant.matching().headers.iter().map(HeaderName::as_str).collect();
    names.join(", ")
}

const fn plain(grant: &Grant) -> &'static str {
    match (grant.matching().plain, &grant.secret) {
        (true, None) => " and http",
        (true, Some(_)) => ", and a secret never travels in plain",
        (false, _) => " alone",
    }
}

fn outage(vault: Option<&Vault>, name: &SecretName) -> Option<String> {
    let status = vault?.status().into_iter().find(|secret| secret.name == *name)?;
    status.outage.map(|outage| outage.to_string())
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("write NAME: VALUE")?;
    let name = name.trim().parse().map_err(|_| format!("{name:?} is no name of a header"))?;
    let value = value.trim().parse().map_err(|_| "the value holds what no header can".to_owned())?;
    Ok((name, value))
}

fn method(text: &str) -> Result<Method, String> {
    text.parse().map_err(|_| format!("{text:?} is no method"))
}

#[cfg(test)]
mod tests;
