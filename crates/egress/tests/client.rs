//! The client against a peer on loopback that misbehaves byte by byte.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use toolcrib_egress::{
    BlockReason, Client, Completeness, Dial, EgressError, Guard, Inbound, Limits, Outbound, Phase, Policy, Resolve,
    ResolveError, SendFailure, Sent, Stream, TcpDialler, TrustRoots,
};

/// Answers each question with the next list of addresses, and counts them.
struct Scripted {
    answers: Mutex<Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Scripted {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Self { answers: Mutex::new(answers.iter().map(parse).collect()), asked: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl Resolve for Scripted {
    async fn resolve(&self, _host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }
}

/// Records what is dialled, and goes to a loopback port instead.
struct Recording {
    dialled: Mutex<Vec<SocketAddr>>,
    really: SocketAddr,
}

#[async_trait]
impl Dial for Recording {
    async fn dial(&self, address: SocketAddr) -> std::io::Result<Box<dyn Stream>> {
        self.dialled.lock().unwrap().push(address);
        TcpDialler.dial(self.really).await
    }
}

fn short() -> Limits {
    Limits {
        connect: Duration::from_millis(400),
        first_byte: Duration::from_millis(400),
        body_bytes: 64 << 10,
        head_bytes: 16 << 10,
        ..Limits::default()
    }
}

fn open_policy() -> Policy {
    Policy { allow_http: true, allow_private: true, ..Policy::default() }
}

fn client(policy: Policy, limits: Limits) -> Client {
    let resolver = Scripted::new(&[&["127.0.0.1"]]);
    let guard = Guard::new(Arc::new(policy), resolver, Arc::new(TcpDialler), limits.connect);
    Client::new(guard, limits, &TrustRoots::default()).unwrap()
}

/// A peer that reads a request's head and answers with these bytes, then does `after`.
async fn peer(answer: Vec<u8>, after: After) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer.clone(), after));
        }
    });
    address
}

#[derive(Clone, Copy)]
enum After {
    Close,
    Reset,
    Stall,
    Drip(&'static [u8]),
    Flood(&'static [u8]),
}

async fn serve(mut stream: TcpStream, answer: Vec<u8>, after: After) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).await? == 0 {
            return Ok(());
        }
        head.push(byte[0]);
    }
    stream.write_all(&answer).await?;
    match after {
        After::Close => stream.shutdown().await,
        After::Reset => stream.set_zero_linger(),
        After::Stall => {
            std::future::pending::<()>().await;
            Ok(())
        }
        After::Drip(bytes) => loop {
            stream.write_all(bytes).await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        },
        After::Flood(bytes) => loop {
            stream.write_all(bytes).await?;
        },
    }
}

async fn get(client: &Client, address: SocketAddr, within: Duration) -> Result<Inbound, SendFailure> {
    let target = client.policy().check_url(&format!("http://{address}/x")).unwrap();
    let request = Outbound { method: Method::GET, target, headers: HeaderMap::new(), body: Bytes::new() };
    client.read(&request, Instant::now() + within).await
}

async fn post(client: &Client, address: SocketAddr, within: Duration) -> Result<Inbound, SendFailure> {
    let target = client.policy().check_url(&format!("http://{address}/x")).unwrap();
    let request = Outbound {
        method: Method::POST,
        target: target.clone(),
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{}"),
    };
    client.connect(&target, Instant::now() + within).await?.send(&request).await
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_name_is_resolved_once_and_the_judged_address_is_dialled() {
    let really = peer(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec(), After::Close).await;
    let resolver = Scripted::new(&[&["93.184.215.14"], &["127.0.0.1"]]);
    let dialler = Arc::new(Recording { dialled: Mutex::default(), really });
    let policy = Policy { allow_http: true, ..Policy::default() };
    let guard = Guard::new(Arc::new(policy), resolver.clone(), dialler.clone(), SECOND);
    let client = Client::new(guard, short(), &TrustRoots::default()).unwrap();
    let target = client.policy().check_url("http://rebind.example.com/x").unwrap();
    let request = Outbound { method: Method::GET, target, headers: HeaderMap::new(), body: Bytes::new() };

    let first = client.read(&request.clone(), Instant::now() + SECOND).await.unwrap();
    assert_eq!(first.body, b"ok");
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 1);
    assert_eq!(*dialler.dialled.lock().unwrap(), ["93.184.215.14:80".parse().unwrap()]);

    // The peer closed, so the next read connects anew, and now the name leads to this machine.
    let second = client.read(&request, Instant::now() + SECOND).await.unwrap_err();
    assert_eq!(second.sent, Sent::Nothing);
    assert!(matches!(second.error, EgressError::Blocked(blocked) if matches!(blocked.reason, BlockReason::Address(_))));
    assert_eq!(dialler.dialled.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn endless_answers_end() {
    let limits = short();
    let client = client(open_policy(), limits.clone());
    let head = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();

    let flood = peer(head.clone(), After::Flood(&[b'x'; 4096])).await;
    let inbound = get(&client, flood, SECOND).await.unwrap();
    assert_eq!(inbound.completeness, Completeness::OverBound(limits.body_bytes));
    assert_eq!(inbound.body.len(), limits.body_bytes);

    let slow_body = peer(head, After::Drip(b"x")).await;
    let inbound = get(&client, slow_body, Duration::from_millis(300)).await.unwrap();
    assert_eq!(inbound.completeness, Completeness::TimedOut);

    let slow_head = peer(b"HTTP/1.1 200 OK\r\n".to_vec(), After::Drip(b"x-a: b\r\n")).await;
    let failure = get(&client, slow_head, SECOND).await.unwrap_err();
    assert!(matches!(failure.error, EgressError::Timeout { phase: Phase::FirstByte, .. }));

    let silent = peer(Vec::new(), After::Stall).await;
    let failure = post(&client, silent, SECOND).await.unwrap_err();
    assert!(matches!(failure.error, EgressError::Timeout { phase: Phase::FirstByte, .. }));
    assert_eq!(failure.sent, Sent::InDoubt);

    let endless_head = peer(b"HTTP/1.1 200 OK\r\n".to_vec(), After::Flood(b"x-padding: aaaaaaaaaaaaaaaa\r\n")).await;
    let failure = get(&client, endless_head, SECOND).await.unwrap_err();
    assert!(matches!(failure.error, EgressError::Protocol { .. }), "{failure:?}");
}

#[tokio::test]
async fn what_is_known_of_a_failed_send() {
    let client = client(open_policy(), short());

    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let refused = free.local_addr().unwrap();
    drop(free);
    let failure = post(&client, refused, SECOND).await.unwrap_err();
    assert_eq!(failure.sent, Sent::Nothing);
    assert!(matches!(failure.error, EgressError::Connect { .. }));
    assert_eq!(get(&client, refused, SECOND).await.unwrap_err().sent, Sent::Nothing);

    let reset = peer(Vec::new(), After::Reset).await;
    assert_eq!(post(&client, reset, SECOND).await.unwrap_err().sent, Sent::InDoubt);

    let garbage = peer(b"\x00\xff garbage\r\n\r\n".to_vec(), After::Close).await;
    let failure = post(&client, garbage, SECOND).await.unwrap_err();
    assert!(matches!(failure.error, EgressError::Protocol { .. }));
    assert_eq!(failure.sent, Sent::InDoubt);

    let lies = peer(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nshort".to_vec(), After::Close).await;
    let inbound = post(&client, lies, SECOND).await.unwrap();
    assert_eq!((inbound.completeness, inbound.body.as_slice()), (Completeness::BrokenOff, b"short".as_slice()));
}

#[tokio::test]
async fn compressed_answers_are_read_under_the_bound() {
    use tokio::io::AsyncReadExt as _;
    let client = client(open_policy(), short());
    let plain = b"the same words again and again ".repeat(100);
    let zeros = vec![0; 8 << 20];
    for (name, bomb) in [("gzip", false), ("br", false), ("zstd", false), ("gzip", true), ("br", true), ("zstd", true)]
    {
        let data = if bomb { zeros.as_slice() } else { plain.as_slice() };
        let mut packed = Vec::new();
        match name {
            "gzip" => async_compression::tokio::bufread::GzipEncoder::new(data).read_to_end(&mut packed).await.unwrap(),
            "br" => async_compression::tokio::bufread::BrotliEncoder::new(data).read_to_end(&mut packed).await.unwrap(),
            _ => async_compression::tokio::bufread::ZstdEncoder::new(data).read_to_end(&mut packed).await.unwrap(),
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {name}\r\ncontent-length: {}\r\n\r\n", packed.len());
        let address = peer([head.into_bytes(), packed].concat(), After::Close).await;
        let inbound = get(&client, address, SECOND).await.unwrap();
        if bomb {
            assert_eq!(inbound.completeness, Completeness::OverBound(64 << 10), "{name}");
            assert_eq!(inbound.body.len(), 64 << 10);
        } else {
            assert_eq!(inbound.body, plain, "{name}");
        }
    }
    let broken =
        peer(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nnope".to_vec(), After::Close);
    let inbound = get(&client, broken.await, SECOND).await.unwrap();
    assert_eq!((inbound.status.as_u16(), inbound.completeness), (200, Completeness::Unreadable));
}

#[tokio::test]
async fn places_of_a_host_are_counted() {
    let limits = Limits { in_flight_per_host: 1, first_byte: SECOND, ..short() };
    let client = client(open_policy(), limits);
    let silent = peer(Vec::new(), After::Stall).await;
    let first = get(&client, silent, Duration::from_millis(600));
    let second = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        get(&client, silent, Duration::from_millis(200)).await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(matches!(first.unwrap_err().error, EgressError::Timeout { phase: Phase::Exchange, .. }));
    let second = second.unwrap_err();
    assert!(matches!(second.error, EgressError::Timeout { phase: Phase::Queue, .. }));
    assert_eq!(second.sent, Sent::Nothing);
}
