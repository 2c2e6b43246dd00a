//! Names: a box, a run, the token of a run, a house. Each parses from text once and is trusted afterwards.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Names one sandbox. Lower-case letters, digits, `-` and `_`; starts with a letter or a digit; at most 63 bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BoxId(String);

/// Names one launch of an agent: the UTC time to the second and eight hexadecimal digits,
/// as in `20260131T235959-0a1b2c3d`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// The secret of one run: a version 4 UUID in lower case. Lives as long as the claim and is never printed.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunToken(String);

/// The SHA-256 of a house's CA certificate in DER, as `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(String);

/// What was wrong with a name. The offending value is not repeated, since it may be a secret in the wrong place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameFault {
    BoxId,
    RunId,
    RunToken,
    Fingerprint,
}

impl BoxId {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RunId {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RunToken {
    /// The token itself, for the one header and the one message that carry it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Fingerprint {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// From the 32 bytes of the digest.
    #[must_use]
    pub fn from_digest(digest: &[u8; 32]) -> Self {
        let mut text = String::with_capacity(71);
        text.push_str("sha256:");
        for byte in digest {
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 15)]));
        }
        Self(text)
    }
}

impl FromStr for BoxId {
    type Err = NameFault;

    fn from_str(text: &str) -> Result<Self, NameFault> {
        let bytes = text.as_bytes();
        let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        match bytes {
            [first, rest @ ..]
                if bytes.len() <= 63 && plain(first) && rest.iter().all(|b| plain(b) || matches!(b, b'-' | b'_')) =>
            {
                Ok(Self(text.to_owned()))
            }
            _ => Err(NameFault::BoxId),
        }
    }
}

impl FromStr for RunId {
    type Err = NameFault;

    fn from_str(text: &str) -> Result<Self, NameFault> {
        let bytes = text.as_bytes();
        let fits = bytes.len() == 24
            && bytes.iter().enumerate().all(|(at, byte)| match at {
                8 => *byte == b'T',
                15 => *byte == b'-',
                16.. => is_lower_hex(*byte),
                _ => byte.is_ascii_digit(),
            });
        if fits { Ok(Self(text.to_owned())) } else { Err(NameFault::RunId) }
    }
}

impl FromStr for RunToken {
    type Err = NameFault;

    fn from_str(text: &str) -> Result<Self, NameFault> {
        let bytes = text.as_bytes();
        let fits = bytes.len() == 36
            && bytes.iter().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => *byte == b'-',
                14 => *byte == b'4',
                19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
                _ => is_lower_hex(*byte),
            });
        if fits { Ok(Self(text.to_owned())) } else { Err(NameFault::RunToken) }
    }
}

impl FromStr for Fingerprint {
    type Err = NameFault;

    fn from_str(text: &str) -> Result<Self, NameFault> {
        match text.strip_prefix("sha256:") {
            Some(hex) if hex.len() == 64 && hex.bytes().all(is_lower_hex) => Ok(Self(text.to_owned())),
            _ => Err(NameFault::Fingerprint),
        }
    }
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'a'..=b'f')
}

macro_rules! text_conversions {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = NameFault;

            fn try_from(text: String) -> Result<Self, NameFault> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    )*};
}
text_conversions!(BoxId, RunId, RunToken, Fingerprint);

macro_rules! display {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
display!(BoxId, RunId, Fingerprint);

impl fmt::Debug for RunToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunToken(…)")
    }
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BoxId => {
                "a box id is 1 to 63 lower-case letters, digits, `-` or `_`, and starts with a letter or a digit"
            }
            Self::RunId => "a run id looks like 20260131T235959-0a1b2c3d",
            Self::RunToken => "a run token is a version 4 UUID in lower case",
            Self::Fingerprint => "a house's fingerprint is `sha256:` and 64 lower-case hexadecimal digits",
        })
    }
}

impl std::error::Error for NameFault {}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::{BoxId, Fingerprint, NameFault, RunId, RunToken};

    #[test]
    fn a_box_id_is_a_plain_lower_case_word() {
        for good in ["a", "claude", "box-1_b", "0"] {
            assert_eq!(good.parse::<BoxId>().map(|id| id.as_str().to_owned()), Ok(good.to_owned()));
        }
        for bad in ["", "-a", "_a", "A", "a/b", "a b", "..", "bücher", &"a".repeat(64)] {
            assert_eq!(bad.parse::<BoxId>(), Err(NameFault::BoxId), "{bad}");
        }
    }

    #[test]
    fn a_run_token_is_a_version_4_uuid_and_nothing_else() {
        assert!("3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab".parse::<RunToken>().is_ok());
        for bad in [
            "",
            "../x",
            "/etc/passwd",
            "3F2B8C1E-9d4a-4c6b-8e2f-0123456789ab",
            "3f2b8c1e-9d4a-1c6b-8e2f-0123456789ab",
            "3f2b8c1e-9d4a-4c6b-ce2f-0123456789ab",
            "3f2b8c1e9d4a4c6b8e2f0123456789ab",
            " 3f2b8c1e-9d4a-4c6b-8e2f-0123456789a",
        ] {
            assert_eq!(bad.parse::<RunToken>(), Err(NameFault::RunToken), "{bad}");
        }
    }

    #[test]
    fn a_run_token_is_never_printed() {
        let token: RunToken = "3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab".parse().expect("a good token");
        assert_eq!(format!("{token:?}"), "RunToken(…)");
    }

    #[test]
    fn run_ids_and_fingerprints_have_one_form() {
        assert!("20260131T235959-0a1b2c3d".parse::<RunId>().is_ok());
        for bad in [
            "20260131T235959-0A1b2c3d",
            "20260131235959-0a1b2c3d",
            "20260131T235959-0a1b2c3",
            "../../../../../../passwd",
        ] {
            assert_eq!(bad.parse::<RunId>(), Err(NameFault::RunId), "{bad}");
        }
        let print = Fingerprint::from_digest(&[0xab; 32]);
        assert_eq!(print.as_str().parse::<Fingerprint>(), Ok(print.clone()));
        assert_eq!("sha256:AB".parse::<Fingerprint>(), Err(NameFault::Fingerprint));
    }
}
