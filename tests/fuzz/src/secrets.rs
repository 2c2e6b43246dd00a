//! Secrets: two that a house could have, in the forms in which others write them, and texts in which they stand.

use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use gateway::echo::Needles;

const SECRETS: [&str; 2] = ["sk-the/real+secret=0123456789", "another-secret-of-the-house"];

pub(crate) static NEEDLES: LazyLock<Arc<Needles>> =
    LazyLock::new(|| Arc::new(Needles::of_all(SECRETS).expect("needles")));

/// Each form of each, written here by itself.
pub(crate) static FORMS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let forms = SECRETS.iter().flat_map(|secret| {
        let percent: String = secret
            .bytes()
            .map(|byte| match byte {
                b'/' | b'+' | b'=' => format!("%{byte:02X}"),
                byte => char::from(byte).to_string(),
            })
            .collect();
        let within = (0..3).map(|before| {
            let encoded = STANDARD_NO_PAD.encode([&b"\0\0"[..before], secret.as_bytes()].concat());
            let whole = (before + secret.len()) * 8 / 6;
            encoded.as_bytes()[(before * 8).div_ceil(6)..whole].to_vec()
        });
        [secret.as_bytes().to_vec(), percent.into_bytes(), secret.replace('/', "\\/").into_bytes()]
            .into_iter()
            .chain(within)
    });
    forms.collect()
});

/// The text with a form in place of each byte above all UTF-8 that is in use.
pub(crate) fn filled(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte.checked_sub(0xf5) {
            Some(number) => out.extend_from_slice(&FORMS[usize::from(number) % FORMS.len()]),
            None => out.push(*byte),
        }
    }
    out
}

/// Whether some form is in there whole.
pub(crate) fn leaks(bytes: &[u8]) -> bool {
    FORMS.iter().any(|form| bytes.windows(form.len()).any(|piece| piece == form))
}
