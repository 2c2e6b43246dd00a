//! Reach: a place that must be out of reach of a box, as the caller names it.

use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub(crate) enum Reach {
    Address(SocketAddr),
    Path(PathBuf),
}

impl Reach {
    /// `None` where the text is neither an address with its port nor an absolute path.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let path = || text.starts_with('/').then(|| Self::Path(text.into()));
        text.parse().ok().map(Self::Address).or_else(path)
    }
}
