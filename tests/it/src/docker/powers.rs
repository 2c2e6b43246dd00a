//! What the services of `compose.yaml` themselves may do: the gateway has no power, and who has some has no network and ends.

use anyhow::{Context, Result, ensure};
use harness::{Case, Engine, Generation, case};
use serde_json::{Value, json};

use super::{House, NEEDS};

pub(crate) const CASES: &[Case] =
    &[case("docker::no_service_has_more_power_than_it_needs", || powers(Generation::Old)).needs(NEEDS).alone()];

pub(super) fn powers(generation: Generation) -> Result<()> {
    let engine = House::of(generation)?.engine;
    for (service, user, kept, network) in [
        ("gateway", "1000:1000", json!(null), "house_egress"),
        ("hello", "1000:1000", json!(null), "none"),
        ("boxd", "0:0", json!(["CHOWN", "DAC_OVERRIDE"]), "none"),
        ("box", "1000:1000", json!(null), "none"),
    ] {
        let told = inspected(engine, service)?;
        let host = &told["HostConfig"];
        ensure!(told["Config"]["User"] == user, "{service} is {}", told["Config"]["User"]);
        ensure!(host["CapDrop"] == json!(["ALL"]) && named(&host["CapAdd"]) == named(&kept), "{service}: {host}");
        ensure!(host["ReadonlyRootfs"] == true && host["Privileged"] == false, "{service}: {host}");
        let options = host["SecurityOpt"].to_string();
        ensure!(options.contains("no-new-privileges") && !options.contains("unconfined"), "{service}: {options}");
        ensure!(host["PortBindings"].as_object().is_none_or(|ports| ports.is_empty()), "{service}: {host}");
        let networks: Vec<&String> =
            told["NetworkSettings"]["Networks"].as_object().context("no networks")?.keys().collect();
        ensure!(networks == [network], "{service} is on {networks:?}");
        if service == "gateway" {
            ensure!(told["State"]["Health"]["Status"] == "healthy", "{}", told["State"]);
        } else {
            ensure!(told["State"]["ExitCode"] == 0 && told["State"]["Running"] == false, "{}", told["State"]);
        }
    }
    // From inside, as its kernel tells it.
    let script = "grep -E '^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Uid):' /proc/1/status; \
        for place in / /usr /etc/boxgate /secrets /opt/boxgate; do ! touch $place/x 2>/dev/null || echo wrote $place; done; \
        touch /data/state/x /doors/claude/x && rm /data/state/x /doors/claude/x && echo its own";
    let text = engine.must(engine.compose(&["exec", "-T", "gateway", "sh", "-c", script]))?.text();
    let lines: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let none = "0000000000000000";
    let wanted = [
        "Uid: 1000 1000 1000 1000".to_owned(),
        format!("CapPrm: {none}"),
        format!("CapEff: {none}"),
        format!("CapBnd: {none}"),
        format!("CapAmb: {none}"),
        "NoNewPrivs: 1".to_owned(),
        "its own".to_owned(),
    ];
    ensure!(lines == wanted, "{lines:?}");
    Ok(())
}

/// What the engine was told of a service's container.
fn inspected(engine: &Engine, service: &str) -> Result<Value> {
    let label = format!("label=com.docker.compose.service={service}");
    let project = "label=com.docker.compose.project=house";
    let oneoff = "label=com.docker.compose.oneoff=False";
    let list = ["ps", "-aq", "--filter", &label, "--filter", project, "--filter", oneoff];
    let id = engine.must(engine.docker(&list))?.text();
    let told = engine.must(engine.docker(&["inspect", id.trim()])).with_context(|| format!("{service}: {id:?}"))?;
    let told: Vec<Value> = serde_json::from_slice(&told.stdout).context("read what was inspected")?;
    told.into_iter().next().with_context(|| format!("there is no {service}"))
}

/// Capabilities by their plain names: a newer engine writes `CAP_` before them.
fn named(list: &Value) -> Vec<String> {
    let names = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut names: Vec<String> = names.map(|name| name.trim_start_matches("CAP_").to_owned()).collect();
    names.sort();
    names
}
