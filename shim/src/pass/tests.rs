//! The shim against a door that is a plain unix socket: what arrives, byte for byte.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

use crate::{Door, Loopback, RunTag, listen, run_at};

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
    sleep(Duration::from_millis(50)).await;
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
    sleep(Duration::from_millis(300)).await;
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

/// Whoever takes every connection cannot make a shim look as if it were gone.
#[tokio::test]
async fn a_shim_that_is_full_still_names_its_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let _door = UnixListener::bind(folder.path().join("door.sock")).expect("a door");
    let run = "20260131T235959-0a1b2c3d".parse().expect("a run id");
    let token = "3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab".parse().expect("a token");
    let door = Door::at(folder.path().join("door.sock"));
    let shim = listen(Loopback::port(0), door, RunTag::new(&run, &token)).await.expect("a shim");
    let at = shim.at();
    tokio::spawn(shim.serve_up_to(4));
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(client(at.number(), b"CONNECT a.test:443 HTTP/1.1\r\n\r\n").await);
    }
    for _ in 0..50 {
        assert_eq!(run_at(at).await.expect("the shim answers"), run.to_string());
    }
    let mut one_more = client(at.number(), b"").await;
    assert!(rest(&mut one_more).await.contains("more than 4 connections"));
    drop(held);
}

/// A server within the box, on a free port.
async fn server() -> (TcpListener, u16) {
    let server = TcpListener::bind(("127.0.0.1", 0)).await.expect("a server");
    let port = server.local_addr().expect("its address").port();
    (server, port)
}

async fn accepted(server: &TcpListener) -> TcpStream {
    timeout(Duration::from_secs(5), server.accept()).await.expect("in time").expect("a connection").0
}

/// What comes until the end, or a reset, which is an end too.
async fn rest(stream: &mut TcpStream) -> String {
    let mut got = Vec::new();
    let reading = async { while matches!(stream.read_buf(&mut got).await, Ok(1..)) {} };
    timeout(Duration::from_secs(5), reading).await.expect("the end in time");
    String::from_utf8(got).expect("text")
}

async fn arrives(stream: &mut TcpStream, want: &str) {
    let mut got = vec![0; want.len()];
    let reading = stream.read_exact(&mut got);
    timeout(Duration::from_secs(5), reading).await.expect("in time").expect("read");
    assert_eq!(String::from_utf8_lossy(&got), want);
}

/// Nobody came to the door.
async fn untouched(scene: &Scene) {
    let came = timeout(Duration::from_millis(50), scene.door.accept()).await;
    assert!(came.is_err(), "the door was opened");
}

#[tokio::test]
async fn a_request_for_the_boxs_own_loopback_stays_in_the_box_and_streams() {
    let scene = scene().await;
    let (listener, port) = server().await;
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let head = format!("POST http://{host}:{port}/mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nab");
        let mut client = client(scene.port, head.as_bytes()).await;
        let mut server = accepted(&listener).await;
        let want =
            format!("POST /mcp HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 6\r\nConnection: close\r\n\r\nab");
        arrives(&mut server, &want).await;
        for (up, down) in [("cd", "HTTP/1.1 200 OK\r\n\r\n"), ("ef", "data: 1\n\n"), ("", "data: 2\n\n")] {
            client.write_all(up.as_bytes()).await.expect("sent");
            arrives(&mut server, up).await;
            server.write_all(down.as_bytes()).await.expect("answered");
            arrives(&mut client, down).await;
        }
        drop(server);
        assert_eq!(rest(&mut client).await, "");
    }
    untouched(&scene).await;
}

#[tokio::test]
async fn a_tunnel_to_the_boxs_own_loopback_stays_in_the_box() {
    let scene = scene().await;
    let (listener, port) = server().await;
    let mut client = client(scene.port, format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\nearly").as_bytes()).await;
    let mut server = accepted(&listener).await;
    arrives(&mut client, "HTTP/1.1 200 Connection established\r\n\r\n").await;
    arrives(&mut server, "early").await;
    server.write_all(b"frame").await.expect("sent");
    arrives(&mut client, "frame").await;
    client.shutdown().await.expect("half closed");
    assert_eq!(rest(&mut server).await, "");
    server.write_all(b"late").await.expect("the other half is open");
    drop(server);
    assert_eq!(rest(&mut client).await, "late");
    untouched(&scene).await;
}

#[tokio::test]
async fn a_second_request_of_the_same_connection_reaches_no_server_in_the_box() {
    let scene = scene().await;
    let (listener, port) = server().await;
    let second = "GET http://api.test/ HTTP/1.1\r\n\r\n";
    let first = format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n");
    // Behind an answer that does not close, and at once.
    for early in [false, true] {
        let sent = if early { format!("{first}{second}") } else { first.clone() };
        let mut client = client(scene.port, sent.as_bytes()).await;
        let mut server = accepted(&listener).await;
        if !early {
            server.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("answered");
            arrives(&mut client, "HTTP/1.1 204 No Content\r\n\r\n").await;
            client.write_all(second.as_bytes()).await.expect("sent");
        }
        assert!(!rest(&mut server).await.contains("api.test"));
        assert_eq!(rest(&mut client).await, "");
    }
    untouched(&scene).await;
}

#[tokio::test]
async fn an_early_answer_outlives_the_body_that_nobody_reads() {
    let scene = scene().await;
    let (listener, port) = server().await;
    let head = format!("POST http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");
    let mut client = client(scene.port, head.as_bytes()).await;
    let mut server = accepted(&listener).await;
    server.write_all(b"HTTP/1.1 413 No\r\n\r\n").await.expect("answered");
    server.shutdown().await.expect("closed");
    arrives(&mut client, "HTTP/1.1 413 No\r\n\r\n").await;
    assert_eq!(rest(&mut client).await, "");
    let gone = async {
        while client.write_all(&[b'x'; 1000]).await.is_ok() {
            sleep(Duration::from_millis(10)).await
        }
    };
    timeout(Duration::from_secs(5), gone).await.expect("the connection is ended");
}

#[tokio::test]
async fn a_closed_port_and_the_shims_own_are_told() {
    let scene = scene().await;
    let (listener, closed) = server().await;
    drop(listener);
    for (port, status, said) in
        [(closed, "HTTP/1.1 502 ", "nothing in this box listens"), (scene.port, "HTTP/1.1 400 ", "this proxy itself")]
    {
        for request in [format!("GET http://localhost:{port}/healthz"), format!("CONNECT 127.0.0.1:{port}")] {
            let mut client = client(scene.port, format!("{request} HTTP/1.1\r\n\r\n").as_bytes()).await;
            let answer = rest(&mut client).await;
            assert!(answer.starts_with(status) && answer.contains(said), "{request}: {answer}");
        }
    }
    untouched(&scene).await;
}
