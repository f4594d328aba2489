//! The files of certificates that the command line takes.

use std::path::PathBuf;

use testkit::redis_nodes::{Certificates, Node};

use crate::world::seckill;

#[tokio::test]
async fn files_of_no_use_are_told_in_a_sentence() {
    let certificates = Certificates::new();
    let [cert, key] = certificates.client();
    let empty = certificates.file("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    let gone = certificates.file("gone.pem");
    let strangers = Certificates::new();
    let their_key = strangers.client()[1].clone();
    let wrong: [(&[(&str, &PathBuf)], &str); 8] = [
        (&[("CA", &gone)], "no certificate in"),
        (&[("CA", &empty)], "it has none in PEM form"),
        (&[("CERT", &cert)], "a client's certificate needs its key"),
        (&[("KEY", &key)], "a client's certificate needs its key"),
        (&[("CERT", &cert), ("KEY", &gone)], "no key in"),
        (&[("CERT", &cert), ("KEY", &cert)], "no key in"),
        (&[("CERT", &gone), ("KEY", &key)], "no certificate in"),
        (&[("CERT", &cert), ("KEY", &their_key)], "is no key to the certificate"),
    ];
    for (variables, words) in wrong {
        let mut program = seckill("rediss://127.0.0.1:1");
        // Where the system has authorities of its own, or not.
        if variables[0].0 != "CA" {
            program = program.with("SECKILL_REDIS_CA", certificates.ca().to_str().unwrap());
        }
        for (name, path) in variables {
            program = program.with(&format!("SECKILL_REDIS_{name}"), path.to_str().unwrap());
        }
        program.run(&["lock", "inspect", "n"]).await.refused(2, words);
    }
}

#[tokio::test]
async fn the_command_line_takes_the_files_as_arguments_and_from_the_environment() {
    let certificates = Certificates::new();
    let node = Node::start(&certificates.arguments()).await;
    let [cert, key] = certificates.client();
    let program = seckill(&format!("rediss://{}", node.tls_address()))
        .with("SECKILL_REDIS_CA", certificates.ca().to_str().unwrap());
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let run = ["lock", "run", "n", "--redis-cert", cert, "--redis-key", key, "--", "echo", "in"];
    assert_eq!(program.says(&run).await, "in\n");
    let program = program.with("SECKILL_REDIS_CERT", cert).with("SECKILL_REDIS_KEY", key);
    assert_eq!(program.says(&["lock", "inspect", "n"]).await, "n: free\n");
}
