//! Small parts of a request's way, each alone: `cargo bench -p bench`. What a whole request costs is `cargo xtask bench`.

use std::hint::black_box;
use std::sync::Arc;

use box_spec::BoxId;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use gateway::ca::Ca;
use gateway::echo::Needles;
use gateway::host::Target;
use gateway::ledger::{Ended, Entry, Kind, Ledger, Outcome, Settings, Verdict};
use gateway::policy::carriers::{header_carries_credential, query_key_carries_credential};
use gateway::policy::{Ask, Found, Grant, GrantName, HostPattern, Matching, NormalPath, PathPattern, Policy, Scheme};
use gateway::tls::LeafConfigs;
use http::{HeaderName, Method};
use shim::{Door, Loopback, RunTag};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener};
use tokio::runtime::Runtime;

fn grant(at: usize, hosts: [String; 2]) -> Grant {
    let hosts = hosts.iter().map(|host| HostPattern::parse(host).expect("a pattern")).collect();
    let paths = ["/v1/things", "/v1/messages"].map(|path| PathPattern::parse(path).expect("a path"));
    let matching =
        Matching { methods: Some(vec![Method::GET, Method::POST]), paths: Some(paths.to_vec()), ..Matching::at(hosts) };
    Grant::new(GrantName::new(&format!("grant-{at}")), matching)
}

fn judge(c: &mut Criterion) {
    for count in [10, 10_000] {
        let grants =
            (0..count).map(|at| grant(at, [format!("service-{at}.example.com"), format!("*.zone-{at}.example.org")]));
        let policy = Policy::new(grants.collect());
        let target = Target::from_authority(&format!("a.zone-{}.example.org:443", count - 2), None).expect("a target");
        let (box_id, path): (BoxId, _) =
            ("one".parse().expect("a box"), NormalPath::parse("/v1/messages").expect("a path"));
        let ask = Ask {
            box_id: &box_id,
            target: &target,
            scheme: Scheme::Https,
            method: &Method::POST,
            path: &path,
            query: None,
            headers: None,
            upgrades: false,
        };
        assert!(matches!(policy.find(&ask), Found::Grant { .. }), "the last but one decides");
        c.bench_function(&format!("judge: {count} grants"), |b| {
            b.iter(|| matches!(policy.find(black_box(&ask)), Found::Grant { .. }))
        });
    }
}

fn head(c: &mut Criterion) {
    c.bench_function("head: target and path", |b| {
        b.iter(|| {
            let target = Target::from_authority(black_box("api.anthropic.com:443"), None).expect("a target");
            (target, NormalPath::parse(black_box("/v1/messages")).expect("a path"))
        });
    });
}

fn overwrite(c: &mut Criterion) {
    let names = [
        "accept",
        "content-type",
        "user-agent",
        "anthropic-version",
        "anthropic-beta",
        "authorization",
        "x-app",
        "content-length",
    ]
    .map(HeaderName::from_static);
    c.bench_function("overwrite: which of 8 headers and 2 query keys carry a credential", |b| {
        b.iter(|| {
            let headers = black_box(&names).iter().filter(|name| header_carries_credential(name)).count();
            headers + black_box(["beta", "api_key"]).iter().filter(|key| query_key_carries_credential(key)).count()
        });
    });
    let needles = Needles::of("sk-ant-oat01-the-real-one-of-the-bench-0123456789abcdef").expect("a secret");
    let piece = vec![b'x'; 16 * 1024];
    let mut group = c.benchmark_group("echo");
    group.throughput(Throughput::Bytes(piece.len() as u64));
    group.bench_function("search of 16 KiB", |b| b.iter(|| needles.are_in(black_box(&piece))));
    group.finish();
}

fn ledger(c: &mut Criterion) {
    let (runtime, folder) = (Runtime::new().expect("a runtime"), tempfile::tempdir().expect("a folder"));
    let ledger = Ledger::open(&Settings::new(folder.path().join("ledger.jsonl"))).expect("a ledger");
    let box_id: BoxId = "one".parse().expect("a box");
    c.bench_function("ledger: a line opened, granted and closed", |b| {
        b.to_async(&runtime).iter(|| async {
            let entry = Entry::new(Kind::Request)
                .box_id(&box_id)
                .method(&Method::POST)
                .path_and_query("/v1/messages?beta=true");
            let ((), line) = ledger.enter(Verdict::allow((), entry)).await.expect("the disk takes it");
            line.close(Outcome { status: Some(200), ended: Ended::Complete, ..Outcome::default() });
        });
    });
}

fn leaf(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let ca = Arc::new(Ca::open_or_make(folder.path()).expect("a CA"));
    let (leaves, box_id): (_, BoxId) = (LeafConfigs::new(ca, 64), "one".parse().expect("a box"));
    let mut at = 0_u64;
    let mut fresh = || {
        at += 1;
        Target::from_authority(&format!("h{at}.example.com:443"), None).expect("a target")
    };
    c.bench_function("leaf: a new host", |b| {
        b.iter_batched(
            &mut fresh,
            |target| leaves.for_target(&box_id, &target).expect("a leaf"),
            BatchSize::SmallInput,
        );
    });
    let known = fresh();
    c.bench_function("leaf: a known host", |b| {
        b.iter(|| leaves.for_target(&box_id, black_box(&known)).expect("a leaf"))
    });
}

fn relay(c: &mut Criterion) {
    let (runtime, folder) = (Runtime::new().expect("a runtime"), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("door.sock");
    let mut client = runtime.block_on(async {
        let door = UnixListener::bind(&path).expect("a door");
        let run = RunTag::new(
            &"20260131T235959-0a1b2c3d".parse().expect("a run"),
            &"3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab".parse().expect("a token"),
        );
        let shim = shim::listen(Loopback::port(0), Door::at(path), run).await.expect("a shim");
        let mut client = client(shim.at().number()).await;
        tokio::spawn(shim.serve());
        client.write_all(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n").await.expect("sent");
        let (mut far, _) = door.accept().await.expect("a connection");
        let mut piece = vec![0; 256 * 1024];
        assert!(far.read(&mut piece).await.expect("a head") > 0);
        tokio::spawn(async move {
            while let Ok(count @ 1..) = far.read(&mut piece).await {
                if far.write_all(&piece[..count]).await.is_err() {
                    return;
                }
            }
        });
        client
    });
    let mut group = c.benchmark_group("shim");
    for size in [256, 64 * 1024] {
        let mut piece = vec![7; size];
        group.throughput(Throughput::Bytes(2 * size as u64));
        group.bench_function(format!("{size} bytes to the door and back"), |b| {
            b.iter(|| {
                runtime.block_on(async {
                    client.write_all(&piece).await.expect("sent");
                    client.read_exact(&mut piece).await.expect("come back");
                });
            });
        });
    }
    group.finish();
}

#[expect(clippy::disallowed_methods, reason = "the agent, on loopback")]
async fn client(port: u16) -> TcpStream {
    let client = TcpStream::connect(("127.0.0.1", port)).await.expect("the shim listens");
    client.set_nodelay(true).expect("a socket");
    client
}

criterion_group!(parts, judge, head, overwrite, ledger, leaf, relay);
criterion_main!(parts);
