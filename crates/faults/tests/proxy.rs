//! What a proxy does to what passes, before either kind of server.

use std::time::Duration;

use faults::{Fault, FaultError, Proxy, RedisNode};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use testkit::wait::{eventually, must};

async fn connect(proxy: &Proxy) -> RedisResult<MultiplexedConnection> {
    connect_to(proxy.url()).await
}

async fn connect_to(url: &str) -> RedisResult<MultiplexedConnection> {
    // Deafness is noticed by a time-out alone.
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(1)));
    Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}

async fn increment(connection: &mut MultiplexedConnection) -> RedisResult<i64> {
    redis::cmd("INCR").arg("n").query_async(connection).await
}

#[tokio::test]
async fn each_fault_does_what_it_says_by_tcp_and_by_a_unix_socket() {
    let node = RedisNode::start(&[]).await.unwrap();
    for url in [node.url(), node.socket_url()] {
        node.command::<()>(&["SET", "n", "0"]).await.unwrap();
        let proxy = Proxy::start(&url).await.unwrap();
        assert_eq!(increment(&mut connect(&proxy).await.unwrap()).await.unwrap(), 1);

        // It never arrives, or it is done.
        for (fault, done) in [(Fault::LoseRequest, 1), (Fault::LoseAnswer, 2)] {
            let mut connection = connect(&proxy).await.unwrap();
            proxy.break_by(fault);
            increment(&mut connection).await.unwrap_err();
            assert_eq!(node.command::<i64>(&["GET", "n"]).await.unwrap(), done);
        }

        let mut connection = connect(&proxy).await.unwrap();
        proxy.break_by(Fault::Deaf);
        assert!(increment(&mut connection).await.unwrap_err().is_timeout());
        proxy.break_by(Fault::None);
        assert_eq!(increment(&mut connect(&proxy).await.unwrap()).await.unwrap(), 3);

        let mut connection = connect(&proxy).await.unwrap();
        proxy.break_by(Fault::HoldAnswers);
        let (answer, ()) = tokio::join!(increment(&mut connection), async {
            let done = async || node.command::<i64>(&["GET", "n"]).await.unwrap() == 4;
            eventually("it is done, and not answered", done).await;
            proxy.break_by(Fault::None);
        });
        assert_eq!(answer.unwrap(), 4);

        proxy.break_by(Fault::Down);
        connect(&proxy).await.unwrap_err();
        proxy.break_by(Fault::None);
        assert_eq!(increment(&mut connect(&proxy).await.unwrap()).await.unwrap(), 5);
    }
}

#[tokio::test]
async fn a_proxy_speaks_for_the_same_user_and_database() {
    let node = RedisNode::start(&["--requirepass", "p@ss"]).await.unwrap();
    let url = format!("redis://:p%40ss@{}/3", node.address());
    let proxy = Proxy::start(&url).await.unwrap();
    assert_eq!(increment(&mut connect(&proxy).await.unwrap()).await.unwrap(), 1);
    let mut direct = Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    assert_eq!(increment(&mut direct).await.unwrap(), 2);
}

#[tokio::test]
async fn a_proxy_that_is_dropped_cuts_its_connections() {
    let node = RedisNode::start(&[]).await.unwrap();
    let proxy = Proxy::before(&node.address()).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    let address = proxy.address();
    drop(proxy);
    let end = must("the connection ends", stream.read(&mut [0; 1])).await;
    assert!(end.map_or(true, |length| length == 0));
    // The port may be another test's by now: then it leads to another server.
    node.command::<()>(&["SET", "only-here", "1"]).await.unwrap();
    if let Ok(mut elsewhere) = connect_to(&format!("redis://{address}")).await {
        let seen: RedisResult<Option<i64>> =
            redis::cmd("GET").arg("only-here").query_async(&mut elsewhere).await;
        assert!(!matches!(seen, Ok(Some(_))), "the proxy leads to its server yet");
    }
}

#[tokio::test]
async fn a_proxy_goes_before_no_server_that_wants_tls() {
    let error = Proxy::start("rediss://127.0.0.1:1/").await.unwrap_err();
    assert!(matches!(error, FaultError::NotPlain(_)), "{error}");
}
