//! Live: what is under way and what it asked, so that a reload can end what is no longer allowed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use box_spec::BoxId;
use http::{Method, Uri};
use tokio_util::sync::CancellationToken;

use crate::host::Target;
use crate::policy::{Ask, Found, NormalPath, Policy, Scheme};

/// Every request that was let through and is not over.
#[derive(Clone, Default)]
pub struct Live {
    all: Arc<Mutex<Register>>,
}

#[derive(Default)]
struct Register {
    next: u64,
    under_way: HashMap<u64, (Asked, CancellationToken)>,
}

/// What one request asked. Its header is not kept: what a grant says of headers binds at the next request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub box_id: BoxId,
    pub target: Target,
    pub scheme: Scheme,
    pub method: Method,
    pub uri: Uri,
    pub upgrades: bool,
}

/// The place of one request among those that are under way. Dropped, it is over.
pub struct Place {
    all: Arc<Mutex<Register>>,
    number: u64,
    cut: CancellationToken,
}

impl Live {
    /// A request goes its way.
    #[must_use]
    pub fn enter(&self, asked: Asked) -> Place {
        let cut = CancellationToken::new();
        let mut register = lock(&self.all);
        let number = register.next;
        register.next += 1;
        register.under_way.insert(number, (asked, cut.clone()));
        Place { all: Arc::clone(&self.all), number, cut }
    }

    /// Ends all that this policy would not let through. Tells how many that were.
    pub fn cut_what_is_refused(&self, policy: &Policy) -> usize {
        let register = lock(&self.all);
        let mut cut = 0;
        for (asked, token) in register.under_way.values() {
            if !token.is_cancelled() && !asked.is_allowed(policy) {
                token.cancel();
                cut += 1;
            }
        }
        cut
    }
}

impl Asked {
    fn is_allowed(&self, policy: &Policy) -> bool {
        let Self { box_id, target, scheme, method, uri, upgrades } = self;
        let Ok(path) = NormalPath::parse(uri.path()) else { return false };
        let ask = Ask {
            box_id,
            target,
            scheme: *scheme,
            method,
            path: &path,
            upgrades: *upgrades,
            query: uri.query(),
            headers: None,
        };
        match policy.find(&ask) {
            Found::Grant { grant, .. } => !upgrades || grant.websocket,
            Found::Denied(_) | Found::NearMiss { .. } | Found::Nothing => false,
        }
    }
}

impl Place {
    /// Cancelled when what allowed this request is gone.
    #[must_use]
    pub const fn withdrawn(&self) -> &CancellationToken {
        &self.cut
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.all).under_way.remove(&self.number);
    }
}

fn lock(all: &Mutex<Register>) -> MutexGuard<'_, Register> {
    // Every change leaves the register whole, so a panic elsewhere while it was held spoils nothing.
    all.lock().unwrap_or_else(PoisonError::into_inner)
}
