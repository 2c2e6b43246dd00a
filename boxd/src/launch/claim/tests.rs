//! The claim against a small door: what is sent, and what each answer makes of it.

use box_spec::wire::{CLAIM_UPGRADE, Identity, PROTOCOL};
use box_spec::{BoxFacts, ClaimReason, ClaimRefused, FromBox, FromHouse, Layer, Layers, Spec};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::{Attestation, ClaimFault, Claimed, Held, HttpFault, Told, attest, claim, refine};
use crate::cli::Output;
use crate::environment::{TakenAway, Variables};
use crate::inputs::Wanted;
use crate::trust;
use ::shim::Door;

const CA: &str = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n";
const TOKEN: &str = "3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab";

struct Scene {
    door: UnixListener,
    wanted: Wanted,
    _folder: tempfile::TempDir,
}

fn scene(house: Option<&str>) -> Scene {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("door.sock");
    let wanted = Wanted {
        agent: None,
        command: None,
        prompt: "hi".to_owned(),
        system: None,
        agent_arguments: Vec::new(),
        output: Output::Native,
        door: Door::at(path.clone()),
        network_door: None,
        over_network: None,
        session: folder.path().to_owned(),
        workspace: None,
        house: house.map(|house| house.parse().expect("a fingerprint")),
        agent_path: Vec::new(),
        variables: Variables::default(),
        taken_away: TakenAway::default(),
        extra: Variables::default(),
        unsafe_open_network: false,
        left_out: crate::harden::LeftOut::default(),
    };
    Scene { door: UnixListener::bind(path).expect("a door"), wanted, _folder: folder }
}

fn spec(ca: &str) -> Spec {
    let value = json!({
        "run": "20260131T235959-0a1b2c3d", "box_id": "b", "token": TOKEN, "agent": "claude",
        "house": trust::fingerprint(CA).expect("a fingerprint").as_str(), "ca_pem": ca,
        "ceiling_seconds": null, "sentinels": [], "exposed": [], "marks": {"salt": "", "secrets": []}, "started": "2026-01-31T23:59:59Z",
    });
    serde_json::from_value(value).expect("a spec")
}

fn identity(house: &str) -> Vec<u8> {
    let identity = Identity {
        house: house.parse().expect("good"),
        box_id: "b".parse().expect("good"),
        protocol: PROTOCOL,
        challenge: None,
    };
    answer(200, &serde_json::to_string(&identity).expect("json"))
}

fn answer(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn upgraded(first: &FromHouse) -> Vec<u8> {
    let line = serde_json::to_string(first).expect("json");
    format!("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: {CLAIM_UPGRADE}\r\n\r\n{line}\n")
        .into_bytes()
}

/// Takes one connection, reads its request and answers it.
async fn serve(door: &UnixListener, with: &[u8]) -> (UnixStream, String) {
    let (mut stream, _) = door.accept().await.expect("a connection");
    let mut request = Vec::new();
    while !is_whole(&request) {
        assert_ne!(stream.read_buf(&mut request).await.expect("read"), 0);
    }
    stream.write_all(with).await.expect("answered");
    (stream, String::from_utf8(request).expect("text"))
}

/// A claim's body is one JSON object; other requests have none.
fn is_whole(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else {
        return false;
    };
    !request.starts_with(b"POST") || serde_json::from_slice::<serde_json::Value>(&request[end + 4..]).is_ok()
}

async fn fault_of(house: Option<&str>, answers: &[Vec<u8>]) -> ClaimFault {
    let scene = scene(house);
    let serving = async {
        for with in answers {
            serve(&scene.door, with).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        claimed = claim(&scene.wanted) => claimed.expect_err("refused"),
        () = serving => unreachable!("it waits for ever"),
    }
}

#[tokio::test]
async fn a_claim_asks_attests_and_gets_its_go() {
    let scene = scene(Some(trust::fingerprint(CA).expect("good").as_str()));
    let house = async {
        serve(&scene.door, &identity(trust::fingerprint(CA).expect("good").as_str())).await;
        let (mut stream, request) = serve(&scene.door, &upgraded(&FromHouse::Spec(Box::new(spec(CA))))).await;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            stream.read_buf(&mut line).await.expect("read");
        }
        stream.write_all(b"\"go\"\n").await.expect("answered");
        (stream, request, serde_json::from_slice::<FromBox>(&line).expect("a message"))
    };
    let boxd = async {
        let (claimed, mut held) = claim(&scene.wanted).await.expect("claimed");
        let attestation = Attestation {
            locked: true,
            non_dumpable: true,
            no_new_privileges: true,
            namespace_init: false,
            pinned: claimed.pinned,
            trusts_house: true,
            secret_free: true,
            layers: Layers { filter: Layer::On, capabilities: Layer::On, scope: Layer::On, limits: Layer::On },
            uid: 1,
            agent_version: None,
            facts: BoxFacts::default(),
        };
        attest(&mut held, attestation).await.expect("go");
        (claimed, held)
    };
    let ((stream, request, said), (claimed, mut held)) = tokio::join!(house, boxd);
    assert!(
        request.starts_with("POST /claim HTTP/1.1\r\nHost: door\r\nConnection: Upgrade\r\nUpgrade: boxgate-claim\r\n"),
        "{request}"
    );
    assert!(matches!(said, FromBox::Attest(Attestation { pinned: true, .. })));
    assert_eq!(claimed.spec.token.expose(), TOKEN);
    lost_when_the_token_opens_nothing(&scene, stream, &claimed, &mut held).await;
}

/// The connection breaks, and the token no longer opens anything: the run is lost.
async fn lost_when_the_token_opens_nothing(scene: &Scene, stream: UnixStream, claimed: &Claimed, held: &mut Held) {
    drop(stream);
    let house = async {
        serve(&scene.door, &identity(claimed.spec.house.as_str())).await;
        let refused = refused(ClaimReason::NothingToReattach);
        let (_, request) = serve(&scene.door, &answer(409, &refused)).await;
        request
    };
    let (request, told) = tokio::join!(house, held.told());
    assert!(request.contains(TOKEN) && matches!(told, Told::Lost(_)), "{told:?}");
}

fn refused(reason: ClaimReason) -> String {
    let refused = ClaimRefused { reason, said: "no".to_owned(), hint: "wait".to_owned(), run: None, since: None };
    serde_json::to_string(&refused).expect("json")
}

#[test]
fn a_door_that_is_barred_to_this_user_is_told_from_one_that_is_not_there() {
    for (kind, said) in [
        (std::io::ErrorKind::PermissionDenied, "this user may not open the door /d"),
        (std::io::ErrorKind::NotFound, "the gateway does not answer at /d"),
    ] {
        let fault = refine(&Door::at("/d".into()), HttpFault::Connect(kind.into()));
        assert!(fault.code() == 69 && fault.to_string().starts_with(said), "{fault}");
    }
}

#[tokio::test]
async fn each_refusal_has_its_exit_code() {
    for (reason, code) in [
        (ClaimReason::DoorTaken, 75),
        (ClaimReason::AgentDiffers, 64),
        (ClaimReason::NoCredential, 78),
        (ClaimReason::LedgerDown, 69),
    ] {
        let fault = fault_of(None, &[answer(409, &refused(reason))]).await;
        assert_eq!(fault.code(), code, "{fault}");
    }
}

#[tokio::test]
async fn a_foreign_house_is_told_nothing() {
    let other = format!("sha256:{}", "0".repeat(64));
    let fault = fault_of(Some(&other), &[identity(trust::fingerprint(CA).expect("good").as_str())]).await;
    assert!(fault.code() == 76 && fault.to_string().contains(&other), "{fault}");
}

#[tokio::test]
async fn a_certificate_that_is_not_the_houses_is_refused() {
    let other = CA.replace("YWJj", "YWJk");
    let fault = fault_of(None, &[upgraded(&FromHouse::Spec(Box::new(spec(&other))))]).await;
    assert_eq!(fault.code(), 76, "{fault}");
}

#[tokio::test]
async fn what_is_no_house_is_not_believed() {
    for bad in [
        answer(200, "{}"),
        answer(500, "oops"),
        b"SSH-2.0-x\r\n\r\n".to_vec(),
        upgraded(&FromHouse::Go),
        b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\n\r\n".to_vec(),
    ] {
        let fault = fault_of(None, &[bad]).await;
        assert!(matches!(fault, ClaimFault::NoHouse { .. }), "{fault}");
    }
    let mut scene = scene(None);
    scene.wanted.door = Door::at("/nonexistent/door.sock".into());
    let fault = claim(&scene.wanted).await.expect_err("no door");
    assert!(fault.code() == 69 && fault.to_string().contains("/nonexistent/door.sock"), "{fault}");
}
