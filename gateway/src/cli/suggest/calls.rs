//! Calls: what was refused for want of a grant, put together into as few grants as open nothing that was not asked for.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use http::header::UPGRADE;

use crate::cli::anew::Candidate;
use crate::dial::screen::screen;
use crate::host::{Host, Target};
use crate::policy::escapes::{Piece, pieces};
use crate::policy::{NormalPath, QueryKeys, Scheme, Serves};
use crate::recorded::{Asked, Headers, Query, Recorded, StandIn};

use super::{never, paths};

/// One call that a grant may let through.
pub(super) struct Call {
    way: Way,
    path: String,
    method: String,
    keys: BTreeSet<String>,
}

/// What all calls of one grant have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Way {
    pub(super) box_id: String,
    pub(super) target: Target,
    pub(super) is_plain: bool,
    pub(super) websocket: bool,
    /// The secret whose stand-in they carried.
    pub(super) secret: Option<String>,
}

#[derive(Default)]
pub(super) struct Calls(BTreeMap<Way, BTreeMap<String, Paths>>);

/// How one path was called.
#[derive(Default)]
struct Paths {
    methods: BTreeSet<String>,
    keys: BTreeSet<String>,
}

/// One grant to be written.
#[derive(Clone, Debug)]
pub(super) struct Proposed {
    pub(super) way: Way,
    pub(super) methods: BTreeSet<String>,
    pub(super) keys: BTreeSet<String>,
    pub(super) paths: Vec<String>,
}

impl Call {
    /// # Errors
    /// Why no grant is proposed for it.
    pub(super) fn of(recorded: &Recorded, now: &Candidate) -> Result<Self, String> {
        let asked = &recorded.asked;
        let why = recorded.refused().ok_or("it was let through")?;
        if let Some(never) = never(why.reason, asked.grant.as_deref()) {
            return Err(never);
        }
        if asked.method == Some(Method::CONNECT) {
            return Err("port-refused at CONNECT: what would have been asked inside nobody knows; a grant with `ports` opens the port, and then it shows".to_owned());
        }
        if let Host::Address(address) = asked.target.host()
            && screen(*address).is_some()
        {
            return Err("it asks for an address that is never dialled unless a person names it".to_owned());
        }
        let (Some(path), Some(method)) = (&asked.path, &asked.method) else {
            return Err("its path or method was cut or masked, so that no grant can be written for it".to_owned());
        };
        let narrowest = NormalPath::parse(path).ok().and_then(|path| paths::narrowest(&path));
        let path = narrowest.ok_or("its path can be read in more than one way, and no pattern holds for just that")?;
        let websocket = matches!(&asked.headers, Headers::Known(headers) if headers.contains_key(UPGRADE));
        let way = Way {
            box_id: asked.box_id.to_string(),
            target: asked.target.clone(),
            is_plain: asked.scheme == Scheme::Http,
            websocket,
            secret: secret(asked, now)?,
        };
        Ok(Self { way, path, method: method.as_str().to_ascii_uppercase(), keys: keys(&asked.query)? })
    }
}

/// The secret that the call needs, where the policy sends it to that host of that box already.
fn secret(asked: &Asked, now: &Candidate) -> Result<Option<String>, String> {
    let StandIn::Of(whose) = &asked.stand_in else { return Ok(None) };
    if asked.scheme == Scheme::Http {
        return Err("it carried a stand-in, and a secret never travels in plain".to_owned());
    }
    let mut here = now.policy().concerning(&asked.box_id, asked.target.host());
    let found = here.find_map(|grant| {
        let secret = grant.secret.as_ref()?;
        let is_own = match &grant.serves {
            Some(Serves::Provider(provider)) => provider.as_str() == whose,
            Some(Serves::Service(_)) => whose.strip_prefix("secret:") == Some(secret.as_str()),
            None => false,
        };
        is_own.then(|| secret.as_str().to_owned())
    });
    found.map(Some).ok_or_else(|| {
        format!("it carried the stand-in of {whose}, and no grant sends that secret to this host: whether one should is for a person to say")
    })
}

/// Keys as a grant names them: as they are meant, without escapes.
fn keys(query: &Query) -> Result<BTreeSet<String>, String> {
    let Query::Keys(keys) = query else {
        return Err("its query was cut or holds a `;`, so that no grant can be written for it".to_owned());
    };
    keys.iter().map(|key| spelled(key)).collect::<Option<_>>().ok_or_else(|| {
        "a key of its query cannot be spelled in a grant; one without `query` lets any through".to_owned()
    })
}

fn spelled(key: &str) -> Option<String> {
    let byte = |piece| match piece {
        Piece::Plain(b'+') | Piece::Stray => None,
        Piece::Plain(byte) | Piece::Escaped(byte) => Some(byte),
    };
    let key = String::from_utf8(pieces(key).map(byte).collect::<Option<_>>()?).ok()?;
    let is_alone = !key.contains('*') && QueryKeys::default().add(&key).is_ok();
    is_alone.then_some(key)
}

impl Calls {
    pub(super) fn add(&mut self, call: Call) {
        let Call { way, path, method, keys } = call;
        let how = self.0.entry(way).or_default().entry(path).or_default();
        how.methods.insert(method);
        how.keys.extend(keys);
    }

    /// Paths that were called alike share a grant, so that no method and no key is opened for a path that did not see it.
    pub(super) fn grants(self) -> Vec<Proposed> {
        let mut grants = Vec::new();
        for (way, called) in self.0 {
            let mut alike: BTreeMap<(BTreeSet<String>, BTreeSet<String>), Vec<String>> = BTreeMap::new();
            for (path, Paths { methods, keys }) in called {
                alike.entry((methods, keys)).or_default().push(path);
            }
            for ((methods, keys), paths) in alike {
                grants.push(Proposed { way: way.clone(), methods, keys, paths: paths::generalised(paths) });
            }
        }
        grants
    }
}
