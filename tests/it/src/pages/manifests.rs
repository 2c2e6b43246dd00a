//! The manifests of docs/kubernetes.md, against each other and against the programs. Nothing here is a cluster.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{Case, Need, Tools, case, files, process};
use serde_json::Value;

pub(crate) const CASES: &[Case] = &[
    // pi's tree has node and a reader of YAML.
    case("pages::the_manifests_of_kubernetes_parse_and_fit_the_programs", manifests).needs(&[Need::Gateway, Need::Pi]),
];

fn manifests() -> Result<()> {
    let page = super::page("docs/kubernetes.md")?;
    let parsed = parse(&page)?;
    let kinds: Vec<&str> = parsed.iter().filter_map(|one| one["kind"].as_str()).collect();
    for (kind, count) in [
        ("ConfigMap", 2),
        ("Deployment", 1),
        ("Service", 1),
        ("NetworkPolicy", 2),
        ("Job", 2),
        ("PersistentVolumeClaim", 1),
    ] {
        ensure!(kinds.iter().filter(|one| **one == kind).count() == count, "{count} of {kind} among {kinds:?}");
    }
    for one in &parsed {
        ensure!(one["apiVersion"].is_string() && one["metadata"]["namespace"] == "boxgate", "{one}");
    }
    let mut configurations = 0;
    for text in parsed.iter().filter_map(|one| one["data"]["house.toml"].as_str()) {
        is_taken(text)?;
        configurations += 1;
    }
    ensure!(configurations == 2, "{configurations} configurations");
    let pods: Vec<&Value> =
        parsed.iter().map(|one| &one["spec"]["template"]["spec"]).filter(|pod| pod.is_object()).collect();
    ensure!(pods.len() == 3, "{} pods", pods.len());
    for pod in &pods {
        fits(pod, &page, &parsed)?;
    }
    one_door(&parsed, &pods)
}

/// Each document of each block of YAML.
fn parse(page: &str) -> Result<Vec<Value>> {
    let blocks: Vec<&str> = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    ensure!(blocks.len() >= 3, "{} blocks", blocks.len());
    let folder = tempfile::tempdir().context("make a folder")?;
    let file = folder.path().join("manifests.yaml");
    files::put(&file, blocks.join("---\n").as_bytes(), 0o644)?;
    let node = Tools::pi()?.into_iter().next().context("find node")?;
    let mut command = Command::new(node);
    command.arg("-e").arg(READ).arg(Tools::agents().join("node_modules/yaml")).arg(&file);
    let ran = process::run(command, None, Duration::from_secs(30))?.expect_code(0)?;
    serde_json::from_slice(&ran.stdout).context("parse what node read")
}

/// By the gateway's own loader, with the files that its pod has.
fn is_taken(text: &str) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let place =
        |text: &str, from: &str| text.replace(&format!("\"{from}"), &format!("\"{}{from}", folder.path().display()));
    let text = ["/data", "/keys", "/secrets", "/door"].iter().fold(text.to_owned(), |text, from| place(&text, from));
    files::put_deep(&folder.path().join("keys/claude/key"), "0123456789abcdef".repeat(4).as_bytes(), 0o600)?;
    files::put_deep(&folder.path().join("secrets/anthropic"), b"sk-ant-oat01-of-a-manifest", 0o600)?;
    let config = folder.path().join("house.toml");
    files::put(&config, text.as_bytes(), 0o600)?;
    let mut check = Command::new(Tools::gateway()?);
    check.arg("check").arg("--config").arg(&config);
    let ran = process::run(check, None, Duration::from_secs(30))?.expect_code(0)?;
    ensure!(ran.text().contains("1 box, 1 secret, 1 grant") && !ran.stderr.contains("warning"), "{ran:?}");
    Ok(())
}

/// What a pod names is there, and what it says to the programs they know.
fn fits(pod: &Value, page: &str, parsed: &[Value]) -> Result<()> {
    ensure!(pod["automountServiceAccountToken"] == false && pod["enableServiceLinks"] == false, "{pod}");
    let volumes = list(&pod["volumes"]);
    for volume in &volumes {
        let made = |kind: &str, name: &Value| {
            let command = format!("create {kind} {}", name.as_str().unwrap_or_default());
            page.contains(&command) || parsed.iter().any(|one| one["metadata"]["name"] == *name)
        };
        let known = match (
            &volume["secret"]["secretName"],
            &volume["configMap"]["name"],
            &volume["persistentVolumeClaim"]["claimName"],
        ) {
            (name @ Value::String(_), _, _) => made("secret generic", name) && volume["secret"]["defaultMode"] == 0o440,
            (_, name @ Value::String(_), _) | (_, _, name @ Value::String(_)) => made("configmap", name),
            _ => volume["emptyDir"].is_object(),
        };
        ensure!(known, "nothing makes the volume {volume}");
    }
    for container in list(&pod["initContainers"]).into_iter().chain(list(&pod["containers"])) {
        let context = &container["securityContext"];
        ensure!(
            context["allowPrivilegeEscalation"] == false && context["capabilities"]["drop"][0] == "ALL",
            "{container}"
        );
        for mount in list(&container["volumeMounts"]) {
            ensure!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "no volume for {mount}");
        }
        let source = if container["args"][0] == "serve" { GATEWAY } else { BOXD };
        for name in list(&container["env"]).into_iter().filter_map(|one| one["name"].as_str()) {
            ensure!(reads(source, name)?, "{name} is read by nothing in {source:?}");
        }
    }
    Ok(())
}

/// Address and port of the one door at an address are the same wherever they stand.
fn one_door(parsed: &[Value], pods: &[&Value]) -> Result<()> {
    let of = |kind: &'static str| parsed.iter().filter(move |one| one["kind"] == kind);
    let service = of("Service").next().context("find the service")?;
    let port = &service["spec"]["ports"][0]["port"];
    let door = format!("tcp://{}:{port}", service["spec"]["clusterIP"].as_str().unwrap_or_default());
    let doors: Vec<&str> = pods
        .iter()
        .flat_map(|pod| list(&pod["containers"]))
        .flat_map(|container| list(&container["env"]))
        .filter(|one| one["name"] == "BOXGATE_DOOR")
        .filter_map(|one| one["value"].as_str())
        .collect();
    ensure!(doors == [door.as_str(), "/run/boxgate/door/door.sock"], "{doors:?} and not {door}");
    for policy in of("NetworkPolicy") {
        let rules = list(&policy["spec"]["egress"]).into_iter().chain(list(&policy["spec"]["ingress"]));
        let ports: Vec<&Value> = rules.flat_map(|rule| list(&rule["ports"])).map(|one| &one["port"]).collect();
        ensure!(ports == [port], "{policy} opens {ports:?}");
    }
    let listens = parsed.iter().filter_map(|one| one["data"]["house.toml"].as_str());
    let listens = listens.filter(|text| text.contains(&format!("listen = \"0.0.0.0:{port}\""))).count();
    ensure!(listens == 1, "{listens} houses listen at {port}");
    Ok(())
}

/// Whether a program's source has this name as a text.
fn reads(sources: &[&str], name: &str) -> Result<bool> {
    let quoted = format!("\"{name}\"");
    for source in sources {
        let path = Tools::workspace().join(Path::new(source));
        if std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?.contains(&quoted) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn list(value: &Value) -> Vec<&Value> {
    value.as_array().map(|list| list.iter().collect()).unwrap_or_default()
}

const BOXD: &[&str] = &["boxd/src/inputs.rs"];
const GATEWAY: &[&str] = &["gateway/src/main.rs"];
/// As Kubernetes reads it, YAML 1.1; what is not sound ends it.
const READ: &str = r"
const { parseAllDocuments } = require(process.argv[1]);
const documents = parseAllDocuments(require('fs').readFileSync(process.argv[2], 'utf8'), { strict: true, version: '1.1' });
for (const one of documents) if (one.errors.length) { console.error(String(one.errors[0])); process.exit(1); }
console.log(JSON.stringify(documents.map((one) => one.toJS())));
";
