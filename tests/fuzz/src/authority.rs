//! Authorities: a target has one spelling, and no other program would take it for another host.

use gateway::host::{Host, Target};
use gateway::policy::HostPattern;

pub(crate) fn holds(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (text, pattern) = text.split_once('\n').unwrap_or((text, "*.a.test"));
    let read = Target::from_authority(text, Some(443));
    if text.is_ascii() {
        assert_eq!(read, Target::from_authority(&text.to_ascii_uppercase(), Some(443)), "letters have no case");
    }
    let Ok(target) = read else { return };
    let shown = target.to_string();
    assert_eq!(Target::from_authority(&shown, None).as_ref(), Ok(&target), "its one spelling is read back");
    let host = target.host();
    let name = host.as_text();
    assert_eq!(Host::parse(&name).as_ref(), Ok(host));
    assert_eq!(host.server_name().to_str(), name, "TLS asks for the same");
    assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.:".contains(&byte)));
    if let Host::Name(name) = host {
        assert!(!is_number(name), "{name} is an address to inet_aton");
        assert!(name.len() <= 253 && !name.ends_with('.') && !name.starts_with('.') && !name.contains(".."));
    }
    matches(pattern, host);
}

/// A pattern matches whole labels, and its own spelling says the same as it.
fn matches(text: &str, host: &Host) {
    let Ok(pattern) = HostPattern::parse(text) else { return };
    let again = HostPattern::parse(&pattern.to_string());
    assert_eq!(again.as_ref(), Ok(&pattern));
    let (shown, name) = (pattern.to_string(), host.as_text());
    let want = match shown.strip_prefix("*.") {
        Some(suffix) => name == suffix || name.ends_with(&format!(".{suffix}")),
        None => shown == "*" || shown == host.to_string(),
    };
    assert_eq!(pattern.matches(host), want, "{shown} {host}");
}

/// As inet_aton(3) reads it: one to four numbers, each decimal, octal or hexadecimal.
fn is_number(name: &str) -> bool {
    let is_part = |part: &str| match part.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()),
    };
    name.split('.').count() <= 4 && name.split('.').all(is_part)
}
