//! What boxd itself says: on standard error, one line at a time, each beginning with its name.

use std::error::Error;
use std::fmt::Display;

use crate::exit;
use crate::screen::Outlet;

/// One line. When standard error is gone there is nobody to tell.
pub(crate) fn line(text: &dyn Display) {
    let _gone = Outlet::new(std::io::stderr()).write(format!("boxd: {text}\n").as_bytes());
}

/// A usage error, with its exit code.
pub(crate) fn usage(fault: &dyn Error) -> u8 {
    line(&chain(fault));
    exit::USAGE
}

/// An error and what caused it, as one line.
pub(crate) fn chain(fault: &dyn Error) -> String {
    let mut text = fault.to_string();
    let mut cause = fault.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

/// The first `limit` bytes of `text`, cut between characters.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or_default()
}
