//! Configurations: a text is read whole or refused with places that are in it, and the same way twice.

use std::path::Path;

use gateway::config::{duration, parse};

pub(crate) fn holds(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(time) = duration::parse(text) {
        assert_eq!(duration::parse(&duration::show(time)), Ok(time), "{text:?} is shown as it is");
    }
    let read = || parse(Path::new("/nowhere/house.toml"), text, Path::new("/nowhere"));
    match (read(), read()) {
        (Ok(one), Ok(other)) => {
            assert_eq!(one.digest, other.digest);
            assert_eq!(one.boxes, other.boxes);
            assert!(one.state.is_absolute() && one.operator_socket.is_absolute());
        }
        (Err(one), Err(other)) => {
            assert_eq!(one, other);
            assert!(!one.faults.is_empty());
            let lines = text.split('\n').count();
            for fault in &one.faults {
                assert!((1..=lines).contains(&fault.line) && fault.column >= 1, "{fault:?}");
                assert!(!fault.message.contains(|letter: char| letter.is_control()), "{fault:?}");
                assert!(fault.message.len() <= LONGEST, "{} bytes", fault.message.len());
            }
        }
        (one, other) => panic!("read in two ways: {:?} and {:?}", one.is_ok(), other.is_ok()),
    }
}

/// What a fault may repeat of the text has a limit.
const LONGEST: usize = 8 * 1024;
