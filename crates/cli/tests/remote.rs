//! A remote store behind the command: a fleet that compiles parts of one list for machines that compile nothing.

mod common;

use common::Scratch;

#[cfg(not(feature = "remote"))]
#[test]
fn a_command_that_was_built_without_it_says_so() {
    let scratch = Scratch::new();
    scratch.write("train.log", "MIOpenDriver conv -n 1 -c 3 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1\n");
    let arguments = ["compile", "train.log", "--store", "plans"];
    let ran = scratch.run(&[&arguments[..], &["--remote", "s3://bucket"]].concat());
    assert!(ran.code == 2 && ran.err.contains("built without it") && ran.err.contains("--features remote"), "{ran:?}");
    let ran = common::Ran::of(&scratch.hipplan(&arguments).env("HIPPLAN_REMOTE", "s3://bucket").output().expect("started"));
    assert!(ran.code == 2 && ran.err.contains("HIPPLAN_REMOTE"), "{ran:?}");
    let ran = common::Ran::of(&scratch.hipplan(&arguments).env("HIPPLAN_REMOTE", "").output().expect("started"));
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[cfg(feature = "remote")]
#[path = "../../remote/tests/servers/scripted.rs"]
mod scripted;

#[cfg(feature = "remote")]
#[path = "../../remote/tests/servers/s3.rs"]
mod s3;

#[cfg(feature = "remote")]
mod with_remote {
    use super::Scratch;
    use super::common::Ran;
    use super::s3::{self, S3};
    use super::scripted::{Answer, Server, closed_port, status};
    use serde_json::{Value, json};
    use std::collections::HashMap;
    use std::process::{Command, Stdio};
    use std::sync::Mutex;
    use std::time::Instant;

    const PROBLEMS: usize = 40;

    fn log(scratch: &Scratch) {
        let line = |n: usize| format!("MIOpenDriver conv -n {n} -c 3 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1\n");
        scratch.write("train.log", (1..=PROBLEMS).map(line).collect::<String>());
    }

    /// A bucket: keeps what is put.
    fn bucket() -> Server {
        let entries = Mutex::new(HashMap::new());
        Server::start(move |_, request| {
            let mut entries = entries.lock().expect("no panic");
            match request.method() {
                "PUT" => {
                    entries.insert(request.path().to_owned(), request.body.clone());
                    status("201 Created", b"")
                }
                _ => entries.get(request.path()).map_or_else(|| status("404 Not Found", b""), |body| status("200 OK", body)),
            }
        })
    }

    /// The command as on a machine of its own that may be busy.
    fn compile(scratch: &Scratch, store: &str, url: &str, more: &[&str]) -> Command {
        let arguments = ["compile", "train.log", "--store", store, "--remote", url, "--json"];
        let mut command = scratch.hipplan(&[&arguments[..], more].concat());
        command.env("HIPPLAN_REMOTE_PATIENCE", "600").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn report(ran: &Ran) -> Value {
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    #[test]
    fn a_fleet_compiles_once() {
        let (scratch, server) = (Scratch::new(), bucket());
        log(&scratch);
        let url = format!("{}/fleet", server.url());
        let machines: Vec<_> = (1..=3)
            .map(|part| {
                let (store, shard) = (format!("machine-{part}"), format!("{part}/3"));
                compile(&scratch, &store, &url, &["--shard", &shard, "--jobs", "1"]).spawn().expect("started")
            })
            .collect();
        let mut compiled = 0;
        for machine in machines {
            let ran = Ran::of(&machine.wait_with_output().expect("ended"));
            assert_eq!(ran.code, 0, "{ran:?}");
            compiled += report(&ran)["counters"]["compiled"].as_u64().expect("a number") as usize;
        }
        assert_eq!(compiled, PROBLEMS);
        let puts_of = |folder: &str| {
            let requests = server.requests();
            requests.iter().filter(|request| request.method() == "PUT" && request.path().contains(folder)).count()
        };
        assert_eq!([puts_of("/v1/plan/"), puts_of("/v1/plan-record/")], [PROBLEMS; 2]);
        assert!(puts_of("/v1/selection/") >= PROBLEMS);

        // A machine with nothing.
        let ran = Ran::of(&compile(&scratch, "fresh", &url, &[]).output().expect("started"));
        assert_eq!((ran.code, &report(&ran)["counters"]["compiled"]), (0, &json!(0)), "{ran:?}");
        assert_eq!([puts_of("/v1/plan/"), puts_of("/v1/plan-record/")], [PROBLEMS; 2], "what came from there is not put there");
        // It has them now, wherever the bucket is.
        drop(server);
        let url = format!("http://{}", closed_port());
        let ran = Ran::of(&compile(&scratch, "fresh", &url, &["--require-precompiled"]).output().expect("started"));
        assert_eq!(ran.code, 0, "{ran:?}");
        let (code, verified) = scratch.json(&["verify", "--store", "fresh"]);
        assert_eq!(code, 0, "{verified}");
    }

    /// The recipe of docs/fleet.md and docs/remote.md: machines that share no folder and one bucket of a real S3 server, a part for each.
    #[test]
    fn a_fleet_shares_one_bucket_of_s3() {
        const MACHINES: usize = 4;
        let (scratch, s3) = (Scratch::new(), S3::start());
        log(&scratch);
        let endpoint = format!("http://{}", s3.address);
        let variables = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", s3::KEY),
            ("AWS_SECRET_ACCESS_KEY", s3::SECRET),
        ];
        let machine = |store: &str, more: &[&str]| {
            let mut command = compile(&scratch, store, "s3://plans/fleet/resnet", more);
            command.envs(variables);
            command
        };
        let count = |ran: &Ran, of: &str| report(ran)["counters"][of].as_u64().expect("a number") as usize;
        // Each part twice at once, as a scheduler does that takes a machine for lost.
        let parts = (1..=MACHINES).flat_map(|part| [(part, "a"), (part, "b")]);
        let machines: Vec<_> = parts
            .map(|(part, of)| {
                let (store, shard) = (format!("machine-{part}{of}"), format!("{part}/{MACHINES}"));
                machine(&store, &["--shard", &shard, "--jobs", "1"]).spawn().expect("started")
            })
            .collect();
        let mut compiled = 0;
        for machine in machines {
            let ran = Ran::of(&machine.wait_with_output().expect("ended"));
            // That it waits for another is no fault.
            let complaints = ran.err.lines().filter(|line| !line.contains("waits for"));
            assert_eq!((ran.code, complaints.count()), (0, 0), "{ran:?}");
            compiled += count(&ran, "compiled");
        }
        assert!((PROBLEMS..=2 * PROBLEMS).contains(&compiled), "{compiled}");
        let files = s3.files();
        let in_bucket = |folder: &str| files.iter().filter(|path| path.contains(&format!("fleet/resnet/v1/{folder}/"))).count();
        assert_eq!([in_bucket("plan"), in_bucket("plan-record")], [PROBLEMS; 2], "{files:?}");
        // The job's end, on one of them: nothing is left to be put.
        let mut push = scratch.hipplan(&["store", "push", "--store", "machine-1a", "--remote", "s3://plans/fleet/resnet"]);
        push.env("HIPPLAN_REMOTE_PATIENCE", "600").envs(variables);
        let ran = Ran::of(&push.output().expect("started"));
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(s3.files(), files);

        // A machine with nothing finds all, compiles nothing, and has it then.
        let ran = Ran::of(&machine("fresh", &[]).output().expect("started"));
        assert_eq!((ran.code, count(&ran, "compiled")), (0, 0), "{ran:?}");
        drop(s3);
        let ran = scratch.run(&["compile", "train.log", "--store", "fresh", "--require-precompiled"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let (code, verified) = scratch.json(&["verify", "--store", "fresh"]);
        assert_eq!(code, 0, "{verified}");
    }

    /// The command with a remote that answers, in an environment of `variables`.
    fn with(scratch: &Scratch, url: &str, args: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut command = scratch.hipplan(&[args, &["--remote", url]].concat());
        command.env("HIPPLAN_REMOTE_PATIENCE", "600").envs(variables.iter().copied());
        Ran::of(&command.output().expect("started"))
    }

    #[test]
    fn a_remote_alone_is_enough_to_look_things_up() {
        let (scratch, server) = (Scratch::new(), bucket());
        scratch.write("g.log", "MIOpenDriver conv -n 1 -c 3 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1\n");
        scratch.write("other.log", "MIOpenDriver conv -n 7 -c 3 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1\n");
        let url = format!("{}/alone", server.url());
        let with = |args: &[&str]| with(&scratch, &url, args, &[]);
        let ran = with(&["compile", "g.log", "--store", "builder"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let puts = || server.requests().iter().filter(|request| request.method() == "PUT").count();
        let before = puts();
        for args in [
            &["run", "g.log", "--check"][..],
            &["run", "g.log", "--require-precompiled"],
            &["check", "g.log"],
            &["coverage", "g.log"],
            &["why", "g.log"],
            &["compile", "g.log", "--require-precompiled"],
        ] {
            let ran = with(&[args, &["--store", "none"]].concat());
            assert_eq!(ran.code, 0, "{args:?} {ran:?}");
        }
        // What is not there is missing, in the words of any other store.
        for (args, code) in [
            (&["run", "other.log"][..], 2),
            (&["run", "other.log", "--require-precompiled"], 4),
            (&["coverage", "other.log"], 1),
            (&["why", "other.log"], 4),
            (&["compile", "other.log", "--require-precompiled"], 4),
        ] {
            let ran = with(&[args, &["--store", "none"]].concat());
            assert_eq!(ran.code, code, "{args:?} {ran:?}");
        }
        let ran = with(&["run", "other.log", "--store", "none"]);
        assert!(ran.err.contains("in the remote store (there is no other)"), "{ran:?}");
        // What lists, lists a store: a remote does not take its place.
        for args in [&["ls"][..], &["verify"], &["store", "ls"], &["store", "stat"], &["bundle", "export", "-o", "all.hpbundle"]] {
            let ran = with(&[args, &["--store", "none"]].concat());
            assert!(ran.code == 2 && ran.err.contains("none"), "{args:?} {ran:?}");
        }
        assert!(!scratch.path("none").exists(), "nothing is kept by what only looks");
        assert_eq!(puts(), before);
    }

    #[test]
    fn where_signatures_are_required_a_remote_is_wrong_usage() {
        let (scratch, server) = (Scratch::new(), bucket());
        log(&scratch);
        assert_eq!(scratch.run(&["bundle", "keygen", "key"]).code, 0);
        let run = |policy: &str, args: &[&str]| {
            let ran = with(&scratch, &server.url(), args, &[("HIPPLAN_SIGNATURES", policy), ("HIPPLAN_TRUSTED_KEYS", "key.pub")]);
            (ran.code, ran)
        };
        for args in [&["compile", "train.log", "--store", "plans"][..], &["coverage", "train.log", "--store", "plans"]] {
            let (code, ran) = run("require", args);
            assert!(code == 2 && ran.err.contains("HIPPLAN_SIGNATURES") && ran.err.contains("not signed"), "{ran:?}");
        }
        assert!(server.requests().is_empty(), "it is not asked");
        let (code, ran) = run("perhaps", &["compile", "train.log", "--store", "plans"]);
        assert!(code == 2 && ran.err.contains("expected `off`"), "{ran:?}");
        let (code, ran) = run("warn", &["compile", "train.log", "--store", "plans"]);
        assert_eq!((code, ran.err.matches("not signed").count()), (0, 1), "{ran:?}");
        let (code, ran) = run("off", &["coverage", "train.log", "--store", "plans"]);
        assert_eq!((code, ran.err.matches("not signed").count()), (0, 0), "{ran:?}");
    }

    #[test]
    fn a_remote_that_never_answers_changes_nothing_and_is_asked_once() {
        let (scratch, server) = (Scratch::new(), Server::start(|_, _| Answer::Stall(Vec::new())));
        log(&scratch);
        let mut command = compile(&scratch, "plans", &server.url(), &["--jobs", "1"]);
        let began = Instant::now();
        let ran = Ran::of(&command.env("HIPPLAN_REMOTE_PATIENCE", "2").output().expect("started"));
        assert_eq!((ran.code, &report(&ran)["counters"]["compiled"]), (0, &json!(PROBLEMS)), "{ran:?}");
        // Once more for each half minute that it is left alone, which is longer than this takes on a machine that is not very busy.
        let most = 1 + began.elapsed().as_secs() / 30;
        assert!(server.connections() as u64 <= most, "{} of {most}", server.connections());
    }

    #[test]
    fn what_a_remote_missed_is_pushed_later() {
        let (scratch, server) = (Scratch::new(), bucket());
        log(&scratch);
        let away = format!("http://{}", closed_port());
        let ran = Ran::of(&compile(&scratch, "builder", &away, &[]).output().expect("started"));
        assert_eq!(ran.code, 0, "{ran:?}");
        let push = |url: &str| with(&scratch, url, &["store", "push", "--store", "builder", "--json"], &[]);
        let ran = push(&away);
        let all = report(&ran)["left"].as_u64().expect("a number");
        assert!(ran.code == 1 && all > 3 * PROBLEMS as u64 && report(&ran)["plans"] == json!(0), "{ran:?}");
        let ran = push(&server.url());
        let put: u64 = ["blobs", "plans", "plan_records", "selections"].iter().filter_map(|kind| report(&ran)[kind].as_u64()).sum();
        assert_eq!((ran.code, &report(&ran)["plans"], put), (0, &json!(PROBLEMS), all), "{ran:?}");
        let ran = Ran::of(&compile(&scratch, "fresh", &server.url(), &["--require-precompiled"]).output().expect("started"));
        assert_eq!(ran.code, 0, "{ran:?}");
        let ran = scratch.run(&["store", "push", "--store", "builder"]);
        assert!(ran.code == 2 && ran.err.contains("--remote"), "{ran:?}");
    }

    #[test]
    fn addresses_that_cannot_be_used_are_wrong_usage() {
        let scratch = Scratch::new();
        log(&scratch);
        for (url, why) in [("ftp://host", "expected one of s3"), ("https://me:hunter2@host", "a user or a password")] {
            let ran = Ran::of(&compile(&scratch, "plans", url, &[]).output().expect("started"));
            assert!(ran.code == 2 && ran.err.contains(why) && !ran.err.contains("hunter2"), "{ran:?}");
        }
        let mut command = compile(&scratch, "plans", "http://127.0.0.1:1", &[]);
        let ran = Ran::of(&command.env("HIPPLAN_REMOTE_PATIENCE", "soon").output().expect("started"));
        assert!(ran.code == 2 && ran.err.contains("HIPPLAN_REMOTE_PATIENCE"), "{ran:?}");
    }
}
