//! The vault: where a secret comes from. (In the making.)

use std::fmt;
use std::sync::Arc;

/// Names a secret of the configuration.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SecretName(Arc<str>);

impl SecretName {
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
