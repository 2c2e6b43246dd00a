//! Toward the boxes: one server configuration for each target, kept within a limit that counts per box.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use box_spec::BoxId;
use rustls::ServerConfig;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::ca::{Ca, CaError, Leaf};
use crate::host::Target;

/// The server configurations of all boxes, each minted when its target is first asked for.
#[derive(Debug)]
pub struct LeafConfigs {
    ca: Arc<Ca>,
    /// How many a box may hold; the one that was used longest ago makes room.
    limit: usize,
    boxes: Mutex<HashMap<BoxId, Leaves>>,
}

#[derive(Debug, thiserror::Error)]
pub enum LeafError {
    #[error("mint a certificate")]
    Mint(#[from] CaError),
    #[error("build a TLS server configuration")]
    Config(#[from] rustls::Error),
}

#[derive(Debug, Default)]
struct Leaves {
    kept: HashMap<Target, Kept>,
    /// Grows by one at each use.
    clock: u64,
}

#[derive(Debug)]
struct Kept {
    config: Arc<ServerConfig>,
    valid_from: SystemTime,
    renew_at: SystemTime,
    used: u64,
}

/// Shows the one leaf of the CONNECT target, whatever name the client asks for: that the names agree is judged elsewhere.
#[derive(Debug)]
struct OneLeaf(Arc<CertifiedKey>);

impl LeafConfigs {
    #[must_use]
    pub fn new(ca: Arc<Ca>, limit: usize) -> Self {
        Self { ca, limit: limit.max(1), boxes: Mutex::default() }
    }

    /// The configuration that plays this target for this box.
    pub fn for_target(&self, box_id: &BoxId, target: &Target) -> Result<Arc<ServerConfig>, LeafError> {
        self.at(SystemTime::now(), box_id, target)
    }

    fn at(&self, now: SystemTime, box_id: &BoxId, target: &Target) -> Result<Arc<ServerConfig>, LeafError> {
        if let Some(config) = self.with(box_id, |leaves| leaves.find(now, target)) {
            return Ok(config);
        }
        // Minted without the lock: two who ask at once mint twice, and the later is kept.
        let leaf = self.ca.mint(target.host())?;
        let Leaf { key, valid_from, renew_at } = leaf;
        let config = Arc::new(server_config(key)?);
        let kept = Kept { config: Arc::clone(&config), valid_from, renew_at, used: 0 };
        self.with(box_id, |leaves| leaves.keep(target, kept, self.limit));
        Ok(config)
    }

    fn with<T>(&self, box_id: &BoxId, deed: impl FnOnce(&mut Leaves) -> T) -> T {
        let mut boxes = self.boxes.lock().unwrap_or_else(PoisonError::into_inner);
        match boxes.get_mut(box_id) {
            Some(leaves) => deed(leaves),
            None => deed(boxes.entry(box_id.clone()).or_default()),
        }
    }
}

impl Leaves {
    fn find(&mut self, now: SystemTime, target: &Target) -> Option<Arc<ServerConfig>> {
        self.clock += 1;
        let kept = self.kept.get_mut(target).filter(|kept| (kept.valid_from..kept.renew_at).contains(&now))?;
        kept.used = self.clock;
        Some(Arc::clone(&kept.config))
    }

    fn keep(&mut self, target: &Target, kept: Kept, limit: usize) {
        if !self.kept.contains_key(target) && self.kept.len() >= limit {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(target, _)| target.clone());
            oldest.and_then(|oldest| self.kept.remove(&oldest));
        }
        self.kept.insert(target.clone(), Kept { used: self.clock, ..kept });
    }
}

impl ResolvesServerCert for OneLeaf {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

pub(super) fn server_config(leaf: Arc<CertifiedKey>) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(super::provider()).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(OneLeaf(leaf)));
    // Clients name the dearer one first.
    config.ignore_client_order = true;
    config.alpn_protocols = vec![super::ALPN.to_vec()];
    // A session store for each of a thousand targets would cost more than the handshakes on a unix socket that it saves.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use super::LeafConfigs;
    use crate::ca::Ca;
    use crate::host::Target;

    fn target(name: &str) -> Target {
        Target::from_authority(name, Some(443)).expect("a target")
    }

    #[test]
    fn a_box_fills_only_its_own_share_and_the_longest_unused_makes_room() {
        let state = tempfile::tempdir().expect("a folder");
        let configs = LeafConfigs::new(Arc::new(Ca::open_or_make(&state.path().join("ca")).expect("made")), 2);
        let (one, two) = ("one".parse().expect("an id"), "two".parse().expect("an id"));
        let first = configs.for_target(&one, &target("a.test")).expect("minted");
        let other = configs.for_target(&two, &target("a.test")).expect("minted");
        assert!(!Arc::ptr_eq(&first, &other), "a box has leaves of its own");
        configs.for_target(&one, &target("b.test")).expect("minted");
        assert!(Arc::ptr_eq(&first, &configs.for_target(&one, &target("a.test")).expect("kept")));
        configs.for_target(&one, &target("c.test")).expect("minted in the place of b.test");
        assert!(Arc::ptr_eq(&first, &configs.for_target(&one, &target("a.test")).expect("kept")));
        for name in 0..20 {
            configs.for_target(&one, &target(&format!("n{name}.test"))).expect("minted");
        }
        assert!(!Arc::ptr_eq(&first, &configs.for_target(&one, &target("a.test")).expect("minted again")));
        assert!(Arc::ptr_eq(&other, &configs.for_target(&two, &target("a.test")).expect("kept")));
    }

    #[test]
    fn a_leaf_is_minted_again_after_two_thirds_of_its_life() {
        let state = tempfile::tempdir().expect("a folder");
        let configs = LeafConfigs::new(Arc::new(Ca::open_or_make(&state.path().join("ca")).expect("made")), 2);
        let one = "one".parse().expect("an id");
        let first = configs.for_target(&one, &target("a.test")).expect("minted");
        let day = |days: u64| SystemTime::now() + Duration::from_secs(days * 86_400);
        assert!(Arc::ptr_eq(&first, &configs.at(day(59), &one, &target("a.test")).expect("kept")));
        assert!(!Arc::ptr_eq(&first, &configs.at(day(61), &one, &target("a.test")).expect("minted again")));
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_leaf_of_the_future() {
        let state = tempfile::tempdir().expect("a folder");
        let configs = LeafConfigs::new(Arc::new(Ca::open_or_make(&state.path().join("ca")).expect("made")), 2);
        let one = "one".parse().expect("an id");
        let first = configs.for_target(&one, &target("a.test")).expect("minted");
        let hours = |hours: u64| SystemTime::now() - Duration::from_secs(hours * 3600);
        assert!(Arc::ptr_eq(&first, &configs.at(hours(1), &one, &target("a.test")).expect("kept")));
        assert!(!Arc::ptr_eq(&first, &configs.at(hours(3), &one, &target("a.test")).expect("minted again")));
    }
}
