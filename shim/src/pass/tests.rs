//! The shim against a door that is a plain unix socket: what arrives, byte for byte.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::time::timeout;

use crate::{Door, Loopback, RunTag, listen};

struct Scene {
    door: UnixListener,
    port: u16,
    folder: tempfile::TempDir,
}

async fn scene() -> Scene {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("door.sock");
    let door = UnixListener::bind(&path).expect("a door");
    let run = "20260131T235959-0a1b2c3d".parse().expect("a run id");
    let token = "3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab".parse().expect("a token");
    let shim = listen(Loopback::port(0), Door::at(path), RunTag::new(&run, &token));
    let shim = shim.await.expect("a shim");
    let port = shim.at().number();
    tokio::spawn(shim.serve());
    Scene { door, port, folder }
}

async fn client(port: u16, bytes: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect(("127.0.0.1", port)).await.expect("the shim listens");
    client.write_all(bytes).await.expect("sent");
    client
}

async fn until_head_end(stream: &mut UnixStream) -> Vec<u8> {
    let mut got = Vec::new();
    while !got.windows(4).any(|four| four == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut got).await.expect("read"), 0, "the head was cut");
    }
    got
}

#[tokio::test]
async fn bytes_sent_with_the_head_reach_the_door_and_the_answer_is_unchanged() {
    let scene = scene().await;
    let mut client = client(scene.port, b"CONNECT a.test:443 HTTP/1.1\r\n\r\nHELLO").await;
    let (mut door, _) = scene.door.accept().await.expect("a connection");
    let mut got = until_head_end(&mut door).await;
    while !got.ends_with(b"HELLO") {
        assert_ne!(door.read_buf(&mut got).await.expect("read"), 0);
    }
    door.write_all(b"HTTP/1.1 403 No\r\nX: y\r\n\r\nwhy").await.expect("answered");
    drop(door);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.expect("read");
    assert_eq!(answer, b"HTTP/1.1 403 No\r\nX: y\r\n\r\nwhy");
}

#[tokio::test]
async fn each_direction_ends_by_itself() {
    let scene = scene().await;
    let mut client = client(scene.port, b"CONNECT a.test:443 HTTP/1.1\r\n\r\n").await;
    let (mut door, _) = scene.door.accept().await.expect("a connection");
    until_head_end(&mut door).await;
    client.shutdown().await.expect("half closed");
    let mut rest = Vec::new();
    door.read_to_end(&mut rest).await.expect("the end arrives");
    door.write_all(b"late").await.expect("the other half is open");
    door.shutdown().await.expect("closed");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.expect("read");
    assert_eq!((rest.as_slice(), answer.as_slice()), (&b""[..], &b"late"[..]));
}

#[tokio::test]
async fn a_large_body_survives_a_slow_reader() {
    let scene = scene().await;
    let mut client = client(scene.port, b"CONNECT a.test:443 HTTP/1.1\r\n\r\n").await;
    let (mut door, _) = scene.door.accept().await.expect("a connection");
    until_head_end(&mut door).await;
    let body: Vec<u8> = (0..4_000_000_u32).map(|n| (n % 251) as u8).collect();
    let sent = body.clone();
    let sending = tokio::spawn(async move {
        door.write_all(&sent).await.expect("sent");
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut got = Vec::new();
    client.read_to_end(&mut got).await.expect("read");
    sending.await.expect("the sender");
    assert!(got == body, "{} bytes of {}", got.len(), body.len());
}

#[tokio::test]
async fn a_door_that_comes_back_is_waited_for() {
    let scene = scene().await;
    let path = scene.folder.path().join("door.sock");
    drop(scene.door);
    std::fs::remove_file(&path).expect("removed");
    let _client = client(scene.port, b"CONNECT a.test:443 HTTP/1.1\r\n\r\n").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let door = UnixListener::bind(&path).expect("a door");
    let accepted = timeout(Duration::from_secs(5), door.accept()).await;
    assert!(accepted.expect("in time").is_ok());
}

#[tokio::test]
async fn the_shim_answers_for_itself_only_where_it_must() {
    let scene = scene().await;
    for (request, want) in [
        ("GET /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n"),
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "),
        ("POST /claim HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "),
    ] {
        let mut client = client(scene.port, request.as_bytes()).await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("read");
        assert!(answer.starts_with(want), "{request:?}: {answer:?}");
    }
}

#[tokio::test]
async fn a_busy_port_gives_way_to_a_free_one() {
    let scene = scene().await;
    let run = "20260131T235959-0a1b2c3d".parse().expect("a run id");
    let token = "3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab".parse().expect("a token");
    let door = Door::at(scene.folder.path().join("door.sock"));
    let second = listen(Loopback::port(scene.port), door, RunTag::new(&run, &token));
    assert_ne!(second.await.expect("a shim").at().number(), scene.port);
}
