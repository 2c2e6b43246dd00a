//! Who may be silent for how long, and what is put in where.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::{Side, SideHandle, Waits};

const WAITS: Waits = Waits { silence: Duration::from_secs(900), head: Duration::from_millis(100), rests: false };

fn watched(prompt: bool) -> (DuplexStream, Side<DuplexStream>, SideHandle) {
    let (client, server) = tokio::io::duplex(4096);
    let (side, handle) = Side::new(server, WAITS, prompt);
    (client, side, handle)
}

#[tokio::test]
async fn silence_may_be_long_and_a_begun_head_may_not() {
    let (mut client, mut side, handle) = watched(false);
    let mut byte = [0];
    let silent = tokio::time::timeout(Duration::from_millis(300), side.read(&mut byte)).await;
    assert!(silent.is_err(), "nothing was sent, so nothing is late");
    client.write_all(b"G").await.expect("sent");
    side.read_exact(&mut byte).await.expect("read");
    let late = side.read(&mut byte).await.expect_err("late");
    assert_eq!(late.kind(), std::io::ErrorKind::TimedOut);
    assert!(handle.was_late());
    let mut told = [0; 12];
    client.read_exact(&mut told).await.expect("told");
    assert_eq!(&told, b"HTTP/1.1 408");
}

#[tokio::test]
async fn a_request_under_way_takes_its_time_and_the_next_head_is_timed_again() {
    let (mut client, mut side, handle) = watched(true);
    let mut byte = [0];
    let exchange = handle.begin(&Method::POST);
    let answering = tokio::time::timeout(Duration::from_millis(300), side.read(&mut byte)).await;
    assert!(answering.is_err(), "a body may take its time");
    drop(exchange);
    client.write_all(b"G").await.expect("sent");
    side.read_exact(&mut byte).await.expect("read");
    assert!(side.read(&mut byte).await.is_err(), "the next head is timed again");
}

#[tokio::test]
async fn at_the_door_the_first_head_begins_at_once_and_an_upgrade_is_never_timed() {
    let (_client, mut side, handle) = watched(true);
    let mut byte = [0];
    assert!(side.read(&mut byte).await.is_err() && handle.was_late());
    let (_client, mut side, handle) = watched(true);
    drop(handle.begin(&Method::CONNECT).answered(Response::new(())));
    assert!(tokio::time::timeout(Duration::from_millis(300), side.read(&mut byte)).await.is_err());
    assert!(!handle.was_late());
}

#[tokio::test]
async fn a_hint_comes_before_the_answer_and_never_within_one() {
    let (mut client, mut side, handle) = watched(false);
    side.write_all(b"half an ans").await.expect("written");
    handle.hint(Bytes::from_static(b"<hint>"));
    side.write_all(b"wer;").await.expect("written");
    side.flush().await.expect("flushed");
    side.write_all(b"next").await.expect("written");
    handle.hinted().await;
    let mut told = [0; 25];
    client.read_exact(&mut told).await.expect("told");
    assert_eq!(&told, b"half an answer;<hint>next");
}

#[tokio::test]
async fn a_connection_that_ends_is_read_on_for_a_moment() {
    let (mut client, mut side, _handle) = watched(false);
    let writer = tokio::spawn(async move { client.write_all(&[b'x'; 100_000]).await.is_ok() });
    tokio::time::timeout(Duration::from_secs(3), side.shutdown()).await.expect("in time").expect("ended");
    assert!(writer.await.expect("joined"), "what was still written broke");
}
