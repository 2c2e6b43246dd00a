//! One command, one file.

pub mod check;
