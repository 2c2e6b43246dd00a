//! Leaves: their dates, their names, their serials, and that two who ask at once are both served.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use harness::{Case, Claimed, Tunnel, case};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::base::{GATEWAY, Wire, get};
use super::certificates::config_at;

pub(super) const CASES: &[Case] = &[
    case("wire::r14_leaf_and_ca_have_what_strict_clients_ask_for", extensions).needs(GATEWAY),
    case("wire::r34_dates_lie_inside_the_ca_and_before_a_lagging_clock", dates).needs(GATEWAY),
    case("wire::r34_a_name_of_91_characters_has_a_leaf", long_name).needs(GATEWAY),
    case("wire::r34_serials_of_a_thousand_leaves_are_unique", serials).needs(GATEWAY),
    case("wire::r34_two_boxes_at_once_are_both_served", at_once).needs(GATEWAY),
    case("wire::r51_an_address_has_a_leaf_for_the_address", address).needs(GATEWAY),
];

fn extensions() -> Result<()> {
    let wire = Wire::start()?;
    let shown = wire.inside("api.test")?.certificates();
    let leaf = parsed(shown.first().context("no leaf")?)?;
    let pem = wire.house.ca_pem()?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).context("read the CA")?;
    let ca = pem.parse_x509().context("parse the CA")?;
    let find = |of: &X509Certificate<'_>, wanted: &str| {
        of.extensions().iter().find(|one| one.oid.to_id_string() == wanted).map(|one| one.critical)
    };
    let (basic, usage, names, own_key, its_key) = ("2.5.29.19", "2.5.29.15", "2.5.29.17", "2.5.29.14", "2.5.29.35");
    ensure!(find(&ca, basic) == Some(true) && find(&ca, usage) == Some(true) && find(&ca, own_key) == Some(false));
    ensure!(ca.is_ca() && ca.key_usage()?.is_some_and(|usage| usage.value.key_cert_sign()));
    let authority = leaf.extensions().iter().find_map(|one| match one.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(found) => found.key_identifier.as_ref().map(|key| key.0.to_vec()),
        _ => None,
    });
    let subject = ca.extensions().iter().find_map(|one| match one.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(found) => Some(found.0.to_vec()),
        _ => None,
    });
    ensure!(authority.is_some() && authority == subject, "{authority:?} {subject:?}");
    ensure!(find(&leaf, its_key) == Some(false) && find(&leaf, own_key) == Some(false) && find(&leaf, names).is_some());
    ensure!(!leaf.is_ca() && leaf.extended_key_usage()?.is_some_and(|usage| usage.value.server_auth));
    Ok(())
}

fn dates() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).context("read the clock")?.as_secs())?;
    let shown = wire.inside("api.test")?.certificates();
    let leaf = parsed(shown.first().context("no leaf")?)?;
    let pem = wire.house.ca_pem()?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).context("read the CA")?;
    let ca = pem.parse_x509().context("parse the CA")?;
    let ends = |of: &X509Certificate<'_>| (of.validity().not_before.timestamp(), of.validity().not_after.timestamp());
    let (ca_from, ca_to) = ends(&ca);
    let (from, to) = ends(&leaf);
    ensure!(ca_from <= from && from <= now - 3600, "from {from}, the CA from {ca_from}, now {now}");
    ensure!(to <= ca_to && to > now && to - from <= 90 * 86_400, "to {to}, the CA to {ca_to}");
    for lag in [600, 3500] {
        let tunnel = Tunnel::connect(&wire.house.door("one"), wire.claimed.token(), "api.test:443")?;
        let config = config_at(&wire.house.ca_pem()?, u64::try_from(now)? - lag)?;
        let answer = tunnel.tls_with(config, "api.test")?.ask(&get("api.test", "/", ""))?;
        ensure!(answer.status == 200, "{answer:?}");
    }
    Ok(())
}

fn long_name() -> Result<()> {
    let wire = Wire::start()?;
    let name = format!("{}.{}.r2.test", "a".repeat(50), "b".repeat(32));
    ensure!(name.len() == 91, "{}", name.len());
    let mut inside = wire.inside(&name)?;
    let shown = inside.certificates();
    let leaf = parsed(shown.first().context("no leaf")?)?;
    let names = leaf.subject_alternative_name()?.context("no names")?;
    ensure!(names.value.general_names == [GeneralName::DNSName(&name)], "{names:?}");
    let common: Vec<_> = leaf.subject().iter_common_name().filter_map(|name| name.as_str().ok()).collect();
    ensure!(common.iter().all(|name| name.len() <= 64), "{common:?}");
    ensure!(leaf.subject().iter().next().is_some() || names.critical, "no subject, and the names are not critical");
    ensure!(inside.ask(&get(&name, "/", ""))?.status == 403);
    Ok(())
}

fn serials() -> Result<()> {
    let wire = Wire::start()?;
    let config = harness::door::client_config(&wire.house.ca_pem()?)?;
    let mut serials = BTreeSet::new();
    for number in 0..1000 {
        let name = format!("n{number}.test");
        let tunnel = Tunnel::connect(&wire.house.door("one"), wire.claimed.token(), &format!("{name}:443"))?;
        let shown = tunnel.tls_with(config.clone(), &name)?.certificates();
        let leaf = parsed(shown.first().context("no leaf")?)?;
        let raw = leaf.raw_serial();
        ensure!(raw.len() <= 20 && raw.first().is_some_and(|first| first & 0x80 == 0), "{raw:?}");
        ensure!(raw.iter().any(|byte| *byte != 0), "a serial of zero");
        serials.insert(raw.to_vec());
    }
    ensure!(serials.len() == 1000, "{} serials of 1000 leaves", serials.len());
    Ok(())
}

fn at_once() -> Result<()> {
    let wire = Wire::with(standin::Options::default(), |house| house.add_box("two", ""))?;
    let second = Claimed::take(&wire.house.door("two"))?;
    let ca = wire.house.ca_pem()?;
    let ask = |door: &str, token: &str, name: String| -> Result<u16> {
        let tunnel = Tunnel::connect(&wire.house.door(door), token, &format!("{name}:443"))?;
        Ok(tunnel.tls(&ca, &name)?.ask(&get(&name, "/", ""))?.status)
    };
    for round in 0..20 {
        let name = format!("new{round}.test");
        let both = std::thread::scope(|scope| {
            let (token, other) = (wire.claimed.token(), second.token());
            let one = scope.spawn(|| ask("one", token, name.clone()));
            let two = scope.spawn(|| ask("two", other, name.clone()));
            [one.join(), two.join()]
        });
        for status in both {
            let status = status.ok().context("a client broke")??;
            ensure!(status == 403, "answered {status}");
        }
    }
    Ok(())
}

fn address() -> Result<()> {
    let wire = Wire::start()?;
    for (target, name) in [("192.0.2.7:443", "192.0.2.7"), ("[2001:db8::1]:443", "2001:db8::1")] {
        let mut inside = wire.inside_of(target, name)?;
        let host = target.trim_end_matches(":443");
        let answer = inside.ask(&get(host, "/", ""))?;
        ensure!(answer.status == 403 && answer.reason() == Some("no-grant"), "{answer:?}");
    }
    Ok(())
}

fn parsed<'a>(der: &'a rustls::pki_types::CertificateDer<'_>) -> Result<X509Certificate<'a>> {
    Ok(X509Certificate::from_der(der.as_ref()).context("parse a certificate")?.1)
}
