//! Grants: what each of their keys lets through, and what a line keeps of a request for whoever judges it again.

use anyhow::{Result, ensure};
use harness::{Case, case};
use serde_json::json;

use super::base::{GATEWAY, Wire, get, post};

pub(super) const CASES: &[Case] =
    &[case("wire::grants::a_line_keeps_what_a_grant_can_be_chosen_by", kept).needs(GATEWAY)];

fn kept() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let secret = "swordfish-is-the-word";
    let mut inside = wire.inside("open.test")?;
    let query = format!("page=1&filter%5Ba%5D={secret}&q=a;{secret}");
    let headers = format!("X-Own: {secret}\r\nAccept: text/plain\r\n");
    ensure!(inside.ask(&get("open.test", &format!("/bare?{query}"), &headers))?.status == 200);
    ensure!(inside.ask(&post("open.test", "/declared", "", "12345"))?.status == 200);
    let chunked =
        "POST /chunked HTTP/1.1\r\nHost: open.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n";
    ensure!(inside.ask(chunked.as_bytes())?.status == 200);
    let (bare, _) = wire.closed("/bare")?;
    let keys: Vec<_> =
        bare["query"].as_array().into_iter().flatten().map(|one| (&one["key"], &one["semicolon"])).collect();
    let (no, yes) = (json!(null), json!(true));
    ensure!(keys == [(&json!("page"), &no), (&json!("filter%5Ba%5D"), &no), (&json!("q"), &yes)], "{bare}");
    ensure!(
        bare["headers"]["others"] == json!(["x-own"]) && bare["headers"]["shown"]["accept"] == "text/plain",
        "{bare}"
    );
    ensure!(bare["body_length"].is_null() && bare["body"].is_null(), "{bare}");
    let (declared, _) = wire.closed("/declared")?;
    ensure!(declared["body_length"] == 5 && declared["body"].is_null(), "{declared}");
    let (chunked, _) = wire.closed("/chunked")?;
    ensure!(chunked["body_length"].is_null() && chunked["body"] == "chunked", "{chunked}");
    let ledger = wire.house.ledger()?;
    ensure!(!ledger.iter().any(|line| line.to_string().contains(secret)), "a value in the ledger");
    Ok(())
}
