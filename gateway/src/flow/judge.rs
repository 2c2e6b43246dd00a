//! Judge: may this box go there, and may this request be sent. The only maker of a pass and of a permit.

mod framing;
mod granted;
mod same_host;
mod upgrade;
mod sentinels;

use std::sync::Arc;

use box_spec::{BoxId, Provider};
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{Method, Request};

use crate::flow::identify::Caller;
use crate::host::Target;
use crate::ledger::{Entry, Kind, Ruling as Word, Verdict};
use crate::live::Asked;
use crate::policy::{Ask, Grant, GrantName, LocalRoute, NormalPath, Policy, Scheme, local_route};
use crate::refusal::{Reason, Refusal, Told};
use crate::vault::SecretName;

pub use granted::{Observed, port};

use sentinels::Whose;

/// Proof that a box may open a connection toward a target. What goes through it is judged again.
#[derive(Debug)]
pub struct Pass {
    caller: Caller,
    target: Target,
}

/// Proof that one request may be sent. It owns the head, so that no other head can be sent with it.
#[derive(Debug)]
pub struct Permit {
    caller: Caller,
    target: Target,
    scheme: Scheme,
    grant: Arc<Grant>,
    head: Parts,
}

/// What may become of a request: it is relayed, or the house answers it itself.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every request is relayed: a pointer would be made for each")]
pub enum Ruling {
    Relay(Permit),
    Answer(Answer),
}

/// A request that never leaves the house and is no refusal: a refresh attempt, telemetry, side calls.
#[derive(Debug)]
pub struct Answer {
    caller: Caller,
    route: LocalRoute,
}

impl Pass {
    #[must_use]
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }
}

impl Permit {
    /// The secret that its grant puts in.
    #[must_use]
    pub fn secret(&self) -> Option<&SecretName> {
        self.grant.secret.as_ref()
    }

    /// What it asked, for as long as it is under way.
    #[must_use]
    pub fn asked(&self) -> Asked {
        Asked {
            box_id: self.caller.box_id().clone(),
            target: self.target.clone(),
            scheme: self.scheme,
            method: self.head.method.clone(),
            uri: self.head.uri.clone(),
            upgrades: self.head.headers.contains_key(UPGRADE),
        }
    }

    /// Takes the permit apart, to be made into what is sent. Only a permit that the ledger let out gets here.
    #[must_use]
    pub fn into_parts(self) -> (Caller, Target, Scheme, Arc<Grant>, Parts) {
        let Self { caller, target, scheme, grant, head } = self;
        (caller, target, scheme, grant, head)
    }
}

impl Answer {
    #[must_use]
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    #[must_use]
    pub const fn route(&self) -> LocalRoute {
        self.route
    }
}

/// The target of a CONNECT (RFC 9110 §9.3.6), in its one normal form.
///
/// # Errors
/// A malformed authority: it is refused at CONNECT itself, since there is nowhere to go.
pub fn target<B>(request: &Request<B>) -> Result<Target, Told> {
    // `http` also takes an absolute address here, and drops what stands around the authority.
    let uri = request.uri();
    let is_alone = uri.scheme().is_none() && uri.path_and_query().is_none();
    let authority = uri.authority().filter(|_| is_alone).map_or("", |authority| authority.as_str());
    Target::from_authority(authority, None).map_err(|fault| {
        Told::new(
            None,
            Refusal::new(
                Reason::BadAuthority,
                format!("the target of CONNECT is malformed: {fault}"),
                format!("malformed CONNECT target: {fault}"),
            ),
        )
    })
}

/// At the door: may this box go toward this target at all.
pub fn door(policy: &Policy, caller: Caller, target: Target) -> Verdict<Pass> {
    let entry = entry(Kind::Tunnel, &caller).target(&target).scheme("https").method(&Method::CONNECT);
    if let Err(refusal) = port(policy, caller.box_id(), &target, Scheme::Https) {
        return Verdict::refuse(Told::new(Some(target), refusal), entry);
    }
    Verdict::allow(Pass { caller, target }, entry.ruling(Word::Allow))
}

/// Inside a tunnel: may this request be sent to the tunnel's target.
pub fn request(policy: &Policy, pass: &Pass, head: Parts) -> Verdict<Ruling> {
    let Pass { caller, target } = pass;
    match same_host::check(target, Scheme::Https, &head) {
        Ok(()) => ruling(policy, caller, target, Scheme::Https, head),
        Err(refusal) => Verdict::refuse(
            Told::new(Some(target.clone()), refusal),
            words(Kind::Request, caller, target, Scheme::Https, &head),
        ),
    }
}

/// A plain request in absolute form: the target is its own authority (RFC 9112 §3.2.2), whatever `Host` says.
///
/// # Errors
/// It is no proxy request, or its authority is malformed.
pub fn plain(policy: &Policy, caller: &Caller, mut head: Parts) -> Result<Verdict<Ruling>, Told> {
    let told = |reason, outside: String| Told::new(None, Refusal::new(reason, outside.clone(), outside));
    let Some(authority) = head.uri.authority() else {
        return Err(told(
            Reason::BadRequest,
            "this is a proxy: send CONNECT, or an absolute http:// address".to_owned(),
        ));
    };
    if head.uri.scheme_str() != Some("http") {
        return Err(told(
            Reason::BadRequest,
            "only http:// is taken in absolute form; use CONNECT for https".to_owned(),
        ));
    }
    if head.headers.get_all(HOST).into_iter().count() != 1 {
        return Err(told(Reason::BadRequest, "a request needs exactly one Host".to_owned()));
    }
    let target = Target::from_authority(authority.as_str(), Some(Scheme::Http.default_port()))
        .map_err(|fault| told(Reason::BadAuthority, format!("the target is malformed: {fault}")))?;
    if let Err(refusal) = port(policy, caller.box_id(), &target, Scheme::Http) {
        let entry = refused_words(caller, &target, Scheme::Http, &head);
        return Ok(Verdict::refuse(Told::new(Some(target), refusal), entry));
    }
    head.headers.remove(HOST);
    Ok(ruling(policy, caller, &target, Scheme::Http, head))
}

/// What is left of a permit that a reload may take back.
pub struct Gone {
    target: Target,
    grant: GrantName,
}

impl Gone {
    #[must_use]
    pub fn of(permit: &Permit) -> Self {
        Self { target: permit.target.clone(), grant: permit.grant.name.clone() }
    }

    /// The refusal of a request that a reload took back while it was under way.
    #[must_use]
    pub fn told(self) -> Told {
        let Self { target, grant } = self;
        let refusal = Refusal::new(
            Reason::GrantWithdrawn,
            "what allowed this request was withdrawn while it was under way",
            "a reload withdrew what allowed it",
        );
        Told::new(Some(target), refusal.with_grant(grant.as_str()))
    }
}

/// The refusal of a plain request whose run ended while it was under way.
#[must_use]
pub fn run_over() -> Told {
    Told::new(None, Refusal::new(Reason::RunOver, "the run is over", "the run ended while the request was under way"))
}

fn ruling(policy: &Policy, caller: &Caller, target: &Target, scheme: Scheme, head: Parts) -> Verdict<Ruling> {
    match decide(policy, caller, target, scheme, &head) {
        Ok((Decision::Grant(grant, observed), Whose(whose))) => {
            let entry = words(Kind::Request, caller, target, scheme, &head).stand_in(whose);
            let mut entry = entry.ruling(Word::Allow).grant(grant.name.as_str());
            if let Some(Observed { reason, grant }) = observed {
                entry = entry.observed(reason, grant.as_str());
            }
            let permit = Permit { caller: caller.clone(), target: target.clone(), scheme, grant, head };
            Verdict::allow(Ruling::Relay(permit), entry)
        }
        Ok((Decision::Local(route), _)) => {
            let entry =
                words(Kind::Answered, caller, target, scheme, &head).ruling(Word::Answer).fact("route", route.code());
            Verdict::allow(Ruling::Answer(Answer { caller: caller.clone(), route }), entry)
        }
        Err(refusal) => {
            let entry = refused_words(caller, target, scheme, &head);
            Verdict::refuse(Told::new(Some(target.clone()), refusal), entry)
        }
    }
}

/// What the policy says to a head: the grant that lets it through, or the route by which the house answers it.
#[derive(Debug)]
pub enum Decision {
    Grant(Arc<Grant>, Option<Observed>),
    Local(LocalRoute),
}

fn decide(
    policy: &Policy,
    caller: &Caller,
    target: &Target,
    scheme: Scheme,
    head: &Parts,
) -> Result<(Decision, Whose), Refusal> {
    let decision = foresee(policy, caller.box_id(), target, scheme, head)?;
    let whose = match &decision {
        Decision::Grant(grant, _) => sentinels::check(caller, grant, head)?,
        Decision::Local(_) => Whose::NONE,
    };
    Ok((decision, whose))
}

/// What would be said to this head, whatever run it is of: it alone lets nothing through. The order matters: what is malformed
/// first, what is never allowed next, what the house answers, then the grants.
///
/// # Errors
/// The refusal.
pub fn foresee(
    policy: &Policy,
    box_id: &BoxId,
    target: &Target,
    scheme: Scheme,
    head: &Parts,
) -> Result<Decision, Refusal> {
    framing::check(head)?;
    if head.method.as_str().eq_ignore_ascii_case("TRACE") || head.method == Method::CONNECT {
        return Err(Refusal::new(
            Reason::MethodNever,
            format!("{} is never forwarded", head.method),
            "TRACE or a CONNECT inside a tunnel",
        ));
    }
    let path = NormalPath::parse(head.uri.path()).map_err(|fault| {
        Refusal::new(Reason::BadRequest, format!("the path is malformed: {fault}"), format!("malformed path: {fault}"))
    })?;
    match local_route(target, &head.method, &path) {
        Some(LocalRoute::DurableCredential) => {
            return Err(Refusal::new(
                Reason::DurableCredential,
                "this route turns a credential into a durable one",
                "a route that makes keys or tokens",
            ));
        }
        Some(route) => return Ok(Decision::Local(route)),
        None => {}
    }
    let upgrades = head.headers.contains_key(UPGRADE);
    let (query, headers) = (head.uri.query(), Some(&head.headers));
    let ask = Ask { box_id, target, scheme, method: &head.method, path: &path, query, headers, upgrades };
    let (grant, observed) = granted::grant(policy, &ask)?;
    upgrade::check(grant, head)?;
    granted::size(grant, head)?;
    Ok(Decision::Grant(Arc::clone(grant), observed))
}

fn entry(kind: Kind, caller: &Caller) -> Entry {
    Entry::new(kind).box_id(caller.box_id()).run_id(&caller.run().id)
}

fn refused_words(caller: &Caller, target: &Target, scheme: Scheme, head: &Parts) -> Entry {
    words(Kind::Request, caller, target, scheme, head).stand_in(Whose::in_head(caller, head).0)
}

fn words(kind: Kind, caller: &Caller, target: &Target, scheme: Scheme, head: &Parts) -> Entry {
    let length = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    entry(kind, caller)
        .target(target)
        .scheme(scheme.as_str())
        .method(&head.method)
        .path_and_query(head.uri.path_and_query().map_or("/", |path| path.as_str()))
        .headers(&head.headers)
        .body_length(length)
        .chunked(head.headers.contains_key(TRANSFER_ENCODING))
}

/// The provider whose error shape a refusal toward this target takes: only its model routes have one.
#[must_use]
pub fn model_route(target: &Target, path: &str) -> Option<Provider> {
    let provider = crate::policy::providers::model_host(target.host())?;
    let facts = crate::policy::providers::facts(provider);
    facts.model_paths.iter().any(|prefix| path.starts_with(prefix)).then_some(provider)
}

#[cfg(test)]
mod tests;
