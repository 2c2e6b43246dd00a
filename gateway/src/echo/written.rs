//! Written: a credential as an address, a JSON string or HTML has it. One of letters, digits, `-` and `_` is the same in all.

/// Every form. For most texts many are the same.
pub(super) fn forms(text: &str) -> impl Iterator<Item = Vec<u8>> {
    WRITERS.iter().flat_map(|writer| DIGITS.map(|digits| writer.written(text, digits)))
}

/// How a kind of writers puts a byte that it does not leave as it is.
enum Writer {
    /// RFC 3986 §2.1: all but letters, digits and these.
    Percent { kept: &'static [u8] },
    /// RFC 8259 §7: these by their numbers, a quote and a backslash behind a backslash, and perhaps a slash.
    Json { numbered: &'static [u8], slashed: bool },
    /// `&`, `<`, `>`, and the two quotes so.
    Html { quote: &'static str, apostrophe: &'static str },
}

impl Writer {
    fn written(&self, text: &str, digits: &[u8; 16]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() * 2);
        for byte in text.bytes() {
            let number = [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]];
            match (self, byte) {
                (Self::Percent { kept }, _) if !byte.is_ascii_alphanumeric() && !kept.contains(&byte) => {
                    out.push(b'%');
                    out.extend(number);
                }
                (Self::Json { numbered, .. }, _) if numbered.contains(&byte) => {
                    out.extend(b"\\u00");
                    out.extend(number);
                }
                (Self::Json { .. }, b'"' | b'\\') | (Self::Json { slashed: true, .. }, b'/') => {
                    out.extend([b'\\', byte])
                }
                (Self::Html { .. }, b'&') => out.extend(b"&amp;"),
                (Self::Html { .. }, b'<') => out.extend(b"&lt;"),
                (Self::Html { .. }, b'>') => out.extend(b"&gt;"),
                (Self::Html { quote, .. }, b'"') => out.extend(quote.bytes()),
                (Self::Html { apostrophe, .. }, b'\'') => out.extend(apostrophe.bytes()),
                (Self::Percent { .. } | Self::Json { .. } | Self::Html { .. }, _) => out.push(byte),
            }
        }
        out
    }
}

const DIGITS: [&[u8; 16]; 2] = [b"0123456789ABCDEF", b"0123456789abcdef"];

/// As the libraries of the usual languages do it, which differ in what they leave.
const WRITERS: [Writer; 14] = [
    // RFC 3986 §2.3.
    Writer::Percent { kept: b"-._~" },
    // JavaScript's encodeURIComponent.
    Writer::Percent { kept: b"-._~!*'()" },
    // Forms, as browsers and Java send them, and PHP.
    Writer::Percent { kept: b"-._*" },
    Writer::Percent { kept: b"-._" },
    Writer::Json { numbered: b"", slashed: false },
    Writer::Json { numbered: b"", slashed: true },
    // For pages: Go, .NET, PHP.
    Writer::Json { numbered: b"<>&", slashed: false },
    Writer::Json { numbered: b"<>&'+\"`", slashed: false },
    Writer::Json { numbered: b"<>&'\"", slashed: true },
    Writer::Html { quote: "\"", apostrophe: "'" },
    Writer::Html { quote: "&quot;", apostrophe: "&#39;" },
    Writer::Html { quote: "&quot;", apostrophe: "&#x27;" },
    Writer::Html { quote: "&quot;", apostrophe: "&#039;" },
    Writer::Html { quote: "&#34;", apostrophe: "&#39;" },
];

#[cfg(test)]
mod tests {
    use super::forms;

    #[test]
    fn each_library_s_way_is_among_the_forms() {
        let text = "s3cr-et_~!*'()/+&<>\"\\=`";
        let forms: Vec<String> = forms(text).map(|form| String::from_utf8(form).expect("text")).collect();
        for (library, written) in [
            ("Python's quote(safe='')", "s3cr-et_~%21%2A%27%28%29%2F%2B%26%3C%3E%22%5C%3D%60"),
            ("JavaScript's encodeURIComponent", "s3cr-et_~!*'()%2F%2B%26%3C%3E%22%5C%3D%60"),
            ("Java's URLEncoder", "s3cr-et_%7E%21*%27%28%29%2F%2B%26%3C%3E%22%5C%3D%60"),
            ("PHP's urlencode, in small letters", "s3cr-et_%7e%21%2a%27%28%29%2f%2b%26%3c%3e%22%5c%3d%60"),
            ("JSON.stringify", "s3cr-et_~!*'()/+&<>\\\"\\\\=`"),
            ("PHP's json_encode", "s3cr-et_~!*'()\\/+&<>\\\"\\\\=`"),
            ("Go's json.Marshal", "s3cr-et_~!*'()/+\\u0026\\u003c\\u003e\\\"\\\\=`"),
            (".NET's JsonSerializer", "s3cr-et_~!*\\u0027()/\\u002B\\u0026\\u003C\\u003E\\u0022\\\\=\\u0060"),
            ("Python's html.escape", "s3cr-et_~!*&#x27;()/+&amp;&lt;&gt;&quot;\\=`"),
            ("PHP's htmlspecialchars", "s3cr-et_~!*&#039;()/+&amp;&lt;&gt;&quot;\\=`"),
            ("Go's html.EscapeString", "s3cr-et_~!*&#39;()/+&amp;&lt;&gt;&#34;\\=`"),
        ] {
            assert!(forms.iter().any(|form| form == written), "{library}: {written}");
        }
        assert!(super::forms("sk-ant_A1").all(|form| form == b"sk-ant_A1"));
    }
}
