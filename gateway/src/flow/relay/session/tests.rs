//! A session between two ends in memory: what is carried, and how it is said to have ended.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{AFTER_END, Ear, Limits, Parting, Passed, carry};

const IDLE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(400);
const TEXT: [u8; 4] = [0x81, 2, b'h', b'i'];
const CLOSE: [u8; 4] = [0x88, 2, 0x03, 0xe8];

/// What both ends do, and how the session between them ended, after how long.
async fn between<B, U>(
    idle: Duration,
    of_box: impl FnOnce(DuplexStream) -> B,
    of_upstream: impl FnOnce(DuplexStream) -> U,
) -> Told
where
    B: Future<Output = ()>,
    U: Future<Output = ()>,
{
    let ((a, b), (c, d)) = (duplex(64), duplex(64));
    let (passed, never) = (Passed::default(), CancellationToken::new());
    let began = Instant::now();
    let carried = async {
        let parting =
            carry(b, c, &passed, Limits { idle, withdrawn: &never, over: &never }, None::<Ear<'_, fn(u64)>>, None)
                .await;
        (parting, began.elapsed())
    };
    let ((parting, took), (), ()) = tokio::join!(carried, of_box(a), of_upstream(d));
    Told { parting, took, bytes: passed.bytes() }
}

#[derive(Debug)]
struct Told {
    parting: Parting,
    took: Duration,
    bytes: (u64, u64),
}

async fn drained(mut stream: DuplexStream) {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.expect("an end");
}

#[tokio::test]
async fn a_close_either_way_is_an_end_and_what_follows_it_still_passes() {
    let told = between(
        IDLE,
        |mut stream| async move {
            stream.write_all(&TEXT).await.expect("sent");
            let mut came = vec![0; CLOSE.len()];
            stream.read_exact(&mut came).await.expect("the close");
            assert_eq!(came, CLOSE);
            assert_eq!(stream.read(&mut came).await.expect("the end"), 0, "half-closed: the end came, not a reset");
            stream.write_all(&CLOSE).await.expect("the reply");
        },
        |mut stream| async move {
            stream.write_all(&CLOSE).await.expect("closed");
            stream.shutdown().await.expect("ended");
            let mut came = Vec::new();
            stream.read_to_end(&mut came).await.expect("the rest");
            assert_eq!(came, [TEXT, CLOSE].concat(), "the reply to the close passed after the end");
        },
    )
    .await;
    assert_eq!((told.parting, told.bytes), (Parting::Complete, (8, 4)));
}

#[tokio::test]
async fn a_box_that_leaves_between_messages_is_done_and_within_one_is_gone() {
    let leave = |bytes: &'static [u8]| {
        move |mut stream: DuplexStream| async move {
            stream.write_all(bytes).await.expect("sent");
        }
    };
    assert_eq!(between(IDLE, leave(&TEXT), drained).await.parting, Parting::Complete);
    assert_eq!(between(IDLE, leave(&TEXT[..3]), drained).await.parting, Parting::BoxGone);
}

#[tokio::test]
async fn an_upstream_that_leaves_without_a_close_broke_off() {
    let told = between(IDLE, drained, |mut stream| async move {
        stream.write_all(&TEXT).await.expect("sent");
    })
    .await;
    assert!(matches!(told.parting, Parting::UpstreamGone(_)), "{told:?}");
}

#[tokio::test]
async fn who_does_not_follow_the_other_is_left_after_a_moment() {
    let told = between(
        IDLE,
        |stream| async move { drop(stream) },
        |stream| async move {
            tokio::time::sleep(AFTER_END * 2).await;
            drop(stream);
        },
    )
    .await;
    assert_eq!(told.parting, Parting::Complete);
    assert!(told.took >= AFTER_END && told.took < AFTER_END + Duration::from_secs(2), "{told:?}");
}

#[tokio::test]
async fn silence_both_ways_ends_it_and_a_byte_either_way_begins_it_anew() {
    let told = between(
        SHORT,
        |mut stream| async move {
            tokio::time::sleep(SHORT * 3 / 4).await;
            stream.write_all(&TEXT).await.expect("sent");
            tokio::time::sleep(SHORT * 2).await;
        },
        |mut stream| async move {
            tokio::time::sleep(SHORT * 3 / 2).await;
            stream.write_all(&TEXT).await.expect("sent");
            tokio::time::sleep(SHORT * 2).await;
        },
    )
    .await;
    assert_eq!(told.parting, Parting::Silent);
    assert!(told.took >= SHORT * 5 / 2 && told.took < SHORT * 5 / 2 + Duration::from_secs(1), "{told:?}");
    assert_eq!(told.bytes, (4, 4));
}

#[tokio::test]
async fn a_side_that_does_not_read_holds_the_other_back() {
    let told = between(
        IDLE,
        |mut stream| async move {
            let all = vec![0x82_u8; 1024 * 1024];
            let sent = tokio::time::timeout(SHORT, stream.write_all(&all)).await;
            assert!(sent.is_err(), "a megabyte went into two pipes of 64 bytes and one piece");
        },
        |stream| async move {
            tokio::time::sleep(SHORT * 2).await;
            drop(stream);
        },
    )
    .await;
    assert!(told.bytes.0 <= 64 + 64, "{told:?}");
}
