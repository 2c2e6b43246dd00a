//! The stock agents and the egress of providers: what they do by themselves passes, and what a model talks them into does not.

use std::time::Duration;

use anyhow::{Result, ensure};
use box_spec::{Agent, Provider};
use harness::{BoxRun, Case, House, Need, case};
use standin::{Options, Real, StandIn};

pub(crate) const CASES: &[Case] =
    &[case("wire::a_claude_that_wants_to_search_the_web_is_told_why_not_and_goes_on", search).needs(CLAUDE)];

/// claude's own tool asks the provider in a request of its own; that one is refused and the run survives it.
fn search() -> Result<()> {
    for (lines, is_let) in [("", false), ("provider_tools = [\"web_search\"]\n", true)] {
        let real = Real::Bearer("sk-ant-oat01-REAL-of-search".into());
        let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
        let house = House::builder().of_models(lines).serve(&standin, Provider::Anthropic, real).start()?;
        let prompt = "<<tool:WebSearch {\"query\":\"boxes and gates\"}>><<text:went on>>";
        let ran = BoxRun::new(&house, "one")?.isolated().prompt(prompt).run(SOON)?.expect_code(0)?;
        let said = ran.said(Agent::Claude)?;
        ensure!(said.text == "went on" && !said.failed, "{said:?}: {}", ran.text());
        let searched = standin.seen().iter().filter(|seen| seen.text().contains("\"web_search_2")).count();
        ensure!((searched > 0) == is_let, "{searched} requests with a search: {}", ran.text());
        let lines = house.ledger()?;
        let refused = lines.iter().filter(|line| line["reason"] == "provider-egress").count();
        let noted =
            lines.iter().filter(|line| line["facts"]["provider_tools"].to_string().contains("web_search")).count();
        ensure!((refused > 0) != is_let && (noted > 0) == is_let, "{refused} refused, {noted} noted: {}", ran.text());
    }
    Ok(())
}

const CLAUDE: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Namespaces];
const SOON: Duration = Duration::from_secs(60);
