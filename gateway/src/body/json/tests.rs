//! The reader against serde_json, cut everywhere, and what it takes that others would not, or the other way round.

use super::{Broken, Container, DEEPEST, Event, Fault, Listener, Reader};

/// Writes down what it hears.
#[derive(Default)]
struct Ear(String);

impl Listener for Ear {
    type Stop = ();

    fn wants(&self) -> usize {
        8
    }

    fn hear(&mut self, event: Event<'_>) -> Result<(), ()> {
        self.0.push_str(&match event {
            Event::Begin(Container::Object) => "{".to_owned(),
            Event::Begin(Container::Array) => "[".to_owned(),
            Event::End(Container::Object) => "}".to_owned(),
            Event::End(Container::Array) => "]".to_owned(),
            Event::Key(Some(key)) => format!("{key}:"),
            Event::Key(None) => "(long):".to_owned(),
            Event::Text { begins, whole } => format!("\"{begins}{}\"", if whole { "" } else { "…" }),
            Event::Nothing => "0".to_owned(),
            Event::Other => "1".to_owned(),
        });
        Ok(())
    }
}

fn heard(text: &[u8], size: usize) -> Result<String, Fault> {
    let (mut reader, mut ear) = (Reader::default(), Ear::default());
    let fault = |broken| match broken {
        Broken::Json(fault) => fault,
        Broken::Listener(()) => unreachable!("it hears all"),
    };
    for piece in text.chunks(size) {
        reader.read(piece, &mut ear).map_err(fault)?;
    }
    reader.end(&mut ear).map_err(fault)?;
    Ok(ear.0)
}

#[test]
fn what_stands_there_is_heard_wherever_it_is_cut() {
    for (text, want) in [
        (r#"{"a":[1,-0.5e+7,"x"],"b":{},"c":null,"d":true,"e":false,"f":[]}"#, r#"{a:[11"x"]b:{}c:0d:1e:0f:[]}"#),
        (r#" { "\u0074ools" : [ ] } "#, "{tools:[]}"),
        (r#"{"\u0054\u006f\u006Fls":"\"\\\/\b"}"#, "{Tools:\"\"\\/\u{8}\"}"),
        (r#"["123456789","12345678","€€€€"]"#, r#"["12345678…""12345678""€€…"]"#),
        (
            r#"["\ud83e\udd80","\ud83e","\udd80x","\ud83e\ud83e\udd80"]"#,
            "[\"🦀\"\"\u{fffd}\"\"\u{fffd}x\"\"\u{fffd}🦀\"]",
        ),
        ("{\"é🦀\":\"é🦀\"}", "{é🦀:\"é🦀\"}"),
        ("7", "1"),
        ("\"\"", "\"\""),
    ] {
        for size in 1..=text.len() {
            assert_eq!(heard(text.as_bytes(), size).as_deref(), Ok(want), "{text} in pieces of {size}");
        }
    }
}

#[test]
fn what_is_no_json_or_is_read_in_two_ways_is_refused() {
    for (text, fault) in [
        (&b"\xef\xbb\xbf{}"[..], Fault::Syntax),
        (b"", Fault::Unfinished),
        (b"  ", Fault::Unfinished),
        (b"{}{}", Fault::Trailing),
        (b"{} x", Fault::Trailing),
        (b"[] ,", Fault::Trailing),
        (b"{", Fault::Unfinished),
        (b"[1", Fault::Unfinished),
        (b"\"x", Fault::Unfinished),
        (b"-", Fault::Syntax),
        (b"tru", Fault::Unfinished),
        (b"{,}", Fault::Syntax),
        (b"{\"a\":1,}", Fault::Syntax),
        (b"[1,]", Fault::Syntax),
        (b"[,1]", Fault::Syntax),
        (b"{a:1}", Fault::Syntax),
        (b"{'a':1}", Fault::Syntax),
        (b"{\"a\" 1}", Fault::Syntax),
        (b"{\"a\":1 \"b\":2}", Fault::Syntax),
        (b"[1 2]", Fault::Syntax),
        (b"[1}", Fault::Syntax),
        (b"{\"a\":1]", Fault::Syntax),
        (b"// x\n{}", Fault::Syntax),
        (b"{/**/}", Fault::Syntax),
        (b"[NaN]", Fault::Syntax),
        (b"[Infinity]", Fault::Syntax),
        (b"[01]", Fault::Syntax),
        (b"[1.]", Fault::Syntax),
        (b"[.5]", Fault::Syntax),
        (b"[+1]", Fault::Syntax),
        (b"[1e]", Fault::Syntax),
        (b"[0x1]", Fault::Syntax),
        (b"[\"a\nb\"]", Fault::Syntax),
        (b"[\"\x00\"]", Fault::Syntax),
        (b"[\"\\x41\"]", Fault::Syntax),
        (b"[\"\\u00g0\"]", Fault::Syntax),
        (b"[\"\\U0041\"]", Fault::Syntax),
        (b"[\"\xff\"]", Fault::Utf8),
        (b"[\"\xc0\xaf\"]", Fault::Utf8),
        (b"[\"\xed\xa0\x80\"]", Fault::Utf8),
        (b"[\"\xe2\x82\"]", Fault::Utf8),
        (b"{\0\"\0a\0", Fault::Syntax),
        (b"\0\x82", Fault::Syntax),
        (b"[1}\xff", Fault::Syntax),
        (b"{\"\\ud83e0\n", Fault::Surrogate),
        (b"{\"\\ud800\":1}", Fault::Surrogate),
        (b"{\"\\udc00x\":1}", Fault::Surrogate),
    ] {
        for size in 1..=text.len().max(1) {
            assert_eq!(heard(text, size), Err(fault), "{:?} in pieces of {size}", String::from_utf8_lossy(text));
        }
    }
}

#[test]
fn it_is_as_deep_as_is_said_and_no_deeper() {
    for open in ["[", "{\"a\":"] {
        let text = |depth: usize| {
            let close = if open == "[" { "]" } else { "}" };
            [open.repeat(depth), "1".to_owned(), close.repeat(depth)].concat()
        };
        assert!(heard(text(DEEPEST).as_bytes(), 7).is_ok());
        assert_eq!(heard(text(DEEPEST + 1).as_bytes(), 7), Err(Fault::Deep));
    }
    assert_eq!(heard(&vec![b'['; 10_000_000], 65_536), Err(Fault::Deep));
}

#[test]
fn a_long_key_is_nobodys_and_a_long_text_is_kept_in_part() {
    let long = "k".repeat(100_000);
    let heard = heard(format!("{{\"{long}\":\"{long}\"}}").as_bytes(), 1000);
    assert_eq!(heard.as_deref(), Ok("{(long):\"kkkkkkkk…\"}"));
}

#[test]
fn it_takes_and_refuses_what_serde_json_does() {
    // Bytes that matter, in every order of four.
    let alphabet = b"{}[]:,\"\\a1-.e u";
    let mut taken = 0;
    for number in 0..alphabet.len().pow(4) {
        let text: Vec<u8> = (0..4).map(|at| alphabet[number / alphabet.len().pow(at) % alphabet.len()]).collect();
        let theirs = serde_json::from_slice::<serde_json::Value>(&text).is_ok();
        // A number too large for theirs is one for us: it is read by nobody here.
        let large = String::from_utf8_lossy(&text).contains("e1");
        let ours = heard(&text, 3).is_ok();
        assert!(ours == theirs || large && ours, "{:?}: {ours}", String::from_utf8_lossy(&text));
        taken += usize::from(ours);
    }
    assert!(taken > 100, "{taken}");
}
