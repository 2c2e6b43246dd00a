//! Needles in every form, in pieces of every size.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use bytes::Bytes;

use super::{Needles, Scan};

const SECRET: &str = "sk-real+secret/with\"odd\\ones~0123456789";

fn passed(needles: &Needles, text: &[u8], size: usize) -> (Vec<u8>, u64) {
    let mut scan = Scan::default();
    let mut out = Vec::new();
    for piece in text.chunks(size) {
        out.extend_from_slice(&scan.pass(needles, Bytes::copy_from_slice(piece)));
    }
    out.extend_from_slice(&scan.rest());
    (out, scan.found())
}

#[test]
fn every_form_is_blotted_out_wherever_it_is_cut() {
    let needles = Needles::of(SECRET).expect("needles");
    let json = serde_json::to_string(SECRET).expect("text");
    let forms = [
        SECRET.to_owned(),
        json.trim_matches('"').to_owned(),
        json.trim_matches('"').replace('/', "\\/"),
        "sk-real%2Bsecret%2Fwith%22odd%5Cones~0123456789".to_owned(),
        "sk-real%2bsecret%2fwith%22odd%5cones~0123456789".to_owned(),
    ];
    for form in &forms {
        let text = format!("before {form} between {form}{form} after");
        for size in [1, 2, 3, 7, 40, text.len()] {
            let (out, found) = passed(&needles, text.as_bytes(), size);
            assert_eq!(out.len(), text.len());
            assert_eq!(found, 3, "{form} in pieces of {size}: {}", String::from_utf8_lossy(&out));
            let blot = "*".repeat(form.len());
            assert_eq!(String::from_utf8(out).expect("text"), format!("before {blot} between {blot}{blot} after"));
        }
    }
}

#[test]
fn base64_of_either_alphabet_is_blotted_out_at_every_offset() {
    let needles = Needles::of(SECRET).expect("needles");
    for before in ["", "a", "ab", "user:", "user:x", "Authorization: Basic user"] {
        for after in ["", "b", "bc", "\nmore"] {
            for encoded in [
                STANDARD.encode(format!("{before}{SECRET}{after}")),
                URL_SAFE.encode(format!("{before}{SECRET}{after}")),
            ] {
                for size in [1, 5, encoded.len()] {
                    let (out, found) = passed(&needles, encoded.as_bytes(), size);
                    assert_eq!((out.len(), found), (encoded.len(), 1), "{before:?} {after:?} in pieces of {size}");
                    // What is left on either side holds less than a byte of it.
                    let left = String::from_utf8(out).expect("text");
                    let dots = left.matches('*').count();
                    assert!(dots >= SECRET.len() * 8 / 6 - 1, "{left}");
                }
            }
        }
    }
}

#[test]
fn all_else_goes_on_as_it_came_and_only_a_true_beginning_is_held() {
    let needles = Needles::of(SECRET).expect("needles");
    let mut scan = Scan::default();
    let event = Bytes::from_static(b"data: {\"text\":\"nothing of it\"}\n\n");
    let out = scan.pass(&needles, event.clone());
    assert!(!scan.holds() && out.as_ptr() == event.as_ptr(), "passed without a copy");
    let out = scan.pass(&needles, Bytes::from_static(b"one sk-re"));
    assert_eq!(&out[..], b"one ");
    let out = scan.pass(&needles, Bytes::from_static(b"peat"));
    assert_eq!(&out[..], b"sk-repeat");
    let out = scan.pass(&needles, Bytes::from_static(b"ends with s"));
    assert_eq!((&out[..], &scan.rest()[..], scan.found()), (&b"ends with "[..], &b"s"[..], 0));
}

#[test]
fn a_beginning_that_begins_again_is_found() {
    let needles = Needles::of("ababababac").expect("needles");
    for size in 1..=8 {
        let (out, found) = passed(&needles, b"abababababababacab", size);
        assert_eq!((String::from_utf8(out).expect("text"), found), ("ababab**********ab".to_owned(), 1), "{size}");
    }
}

#[test]
fn what_is_too_short_is_not_looked_for_and_nothing_is_printed() {
    let short = Needles::of("short").expect("needles");
    assert!(!short.are_in(b"short, and short again"));
    assert!(!format!("{:?}", Needles::of(SECRET)).contains("real"));
}

#[test]
fn endless_beginnings_take_linear_time() {
    let needles = Needles::of(&"s".repeat(512)).expect("needles");
    let began = std::time::Instant::now();
    let (out, found) = passed(&needles, &b"ssssssssssssssst".repeat(16_384), 1024);
    assert_eq!((out.len(), found), (16 * 16_384, 0));
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

#[test]
fn the_longest_secret_takes_little_memory_and_is_found() {
    let secret: String =
        (0..64 * 1024_u32).map(|at| char::from(b'!' + u8::try_from(at * 7919 % 93).unwrap_or(0))).collect();
    let needles = Needles::of(&secret).expect("needles");
    assert!(needles.beginnings.memory_usage() < 256 * 1024, "{}", needles.beginnings.memory_usage());
    // Begun again and again, and then whole.
    let text = format!("{}{}{secret}.", &secret[..20], &secret[..60_000]);
    let (out, found) = passed(&needles, text.as_bytes(), 16 * 1024);
    assert_eq!((out.len(), found), (text.len(), 1));
    assert_eq!(&out[20 + 60_000..], format!("{}.", "*".repeat(secret.len())).as_bytes());
}
