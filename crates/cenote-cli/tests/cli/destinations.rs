//! Names under which commands write files and make sockets: they replace nothing that is not theirs to replace.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Here, kill};

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A pool with a pair in it, and what workloads read.
fn prepared() -> Here {
    let here = Here::new();
    here.ok("create ./p --size 4MiB");
    here.ok("put ./p key value");
    here.ok("mapreduce generate wordcount text --size 4KiB");
    here.ok("mapreduce dedup ./text --alone --output ./archive");
    here
}

/// Command lines that write to a file of a name.
fn writers(name: &str) -> [String; 6] {
    [
        format!("export ./p {name} --format tsv"),
        format!("trace generate {name} --operations 3"),
        format!("mapreduce generate wordcount {name} --size 4KiB"),
        format!("mapreduce wordcount ./text --alone --output {name}"),
        format!("mapreduce undedup ./archive {name}"),
        format!("sim hash --memory coherent --seed 1 --export {name}"),
    ]
}

#[test]
fn what_is_no_ordinary_file_stays() {
    let here = prepared();
    here.ok("create ./other --size 4MiB");
    std::fs::hard_link(here.path("p"), here.path("hard")).unwrap();
    symlink("p", here.path("link")).unwrap();
    symlink("loop", here.path("loop")).unwrap();
    std::fs::create_dir(here.path("folder")).unwrap();
    let _socket = UnixListener::bind(here.path("socket")).unwrap();
    let before = names(here.0.path());
    let inode = |name: &str| here.path(name).symlink_metadata().unwrap().ino();
    for (name, why) in [
        ("./p", "it is "),
        ("./hard", "it is "),
        ("./link", "it is "),
        ("./other", "it is a pool"),
        ("./folder", "it is a folder"),
        ("./folder/", "it is a folder"),
        ("./socket", "it is a socket"),
        ("./loop", "symbolic links"),
        ("./none/file", "No such file"),
        ("./text/file", "Not a directory"),
        ("/proc/cenote-test.tsv", "no file can be made"),
    ] {
        let known = before.iter().any(|known| name == format!("./{known}"));
        let was = known.then(|| inode(name));
        for line in writers(name) {
            let message = here.fails(1, &line);
            assert!(message.contains(why), "{line}: {message}");
        }
        assert_eq!(was, known.then(|| inode(name)), "{name}");
    }
    // What is read is not written over, either.
    here.fails(1, "mapreduce wordcount ./text --alone --output ./text");
    here.fails(1, "mapreduce undedup ./archive ./archive");
    assert_eq!(names(here.0.path()), before);
    assert_eq!(here.ok("get ./p key"), "value");
    assert_eq!(here.json("fsck ./other")["clean"], true);
}

#[test]
fn what_is_no_file_is_written_through() {
    let here = prepared();
    pipe(&here.path("pipe"));
    symlink("/dev/full", here.path("full")).unwrap();
    symlink("/dev/stdout", here.path("out")).unwrap();
    for (plain, to_pipe) in writers("./file").iter().zip(writers("./pipe")) {
        here.ok(plain);
        let wanted = std::fs::read(here.path("file")).unwrap();
        let pipe = here.path("pipe");
        let reader = std::thread::spawn(move || std::fs::read(pipe).unwrap());
        let ran = here.run(&to_pipe);
        assert_eq!(ran.code, Some(0), "{to_pipe}: {ran:?}");
        assert!(reader.join().unwrap() == wanted, "{to_pipe}");
    }
    assert!(here.path("pipe").metadata().unwrap().file_type().is_fifo());
    for line in writers("./full") {
        let message = here.fails(1, &line);
        assert!(message.contains("No space left"), "{line}: {message}");
    }
    // Standard output has nothing else in it then.
    for name in ["-", "./out", "/dev/fd/1"] {
        let ran = here.run(&format!("export ./p {name} --format tsv"));
        assert_eq!(
            (ran.code, ran.text().as_str()),
            (Some(0), "key\tvalue\n"),
            "{name}"
        );
    }
    // What a shell has opened keeps what is in it.
    let shell = "(echo first; \"$0\" export ./p ./out --format tsv) > told";
    let cenote = env!("CARGO_BIN_EXE_cenote");
    let mut command = Command::new("sh");
    command.args(["-c", shell, cenote]).current_dir(here.0.path());
    assert!(command.status().unwrap().success());
    let told = std::fs::read_to_string(here.path("told")).unwrap();
    assert_eq!(told, "first\nkey\tvalue\n");
    // A reader that has read enough makes nothing fail; the pool that is read is not appended to.
    for line in [
        "export ./p ./out --format tsv",
        "trace generate - --operations 2M",
    ] {
        let mut child = here
            .command(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), output.stderr.len()),
            (Some(0), 0),
            "{line}"
        );
    }
    let before = here.path("p").metadata().unwrap().len();
    for name in ["-", "./out", "/dev/fd/1"] {
        let pool = std::fs::File::options()
            .append(true)
            .open(here.path("p"))
            .unwrap();
        let mut command = here.command(["export", "./p", name, "--format", "tsv"]);
        let status = command.stdout(pool).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(1), "{name}");
    }
    assert_eq!(here.path("p").metadata().unwrap().len(), before);
    for link in ["full", "out"] {
        assert!(here.path(link).symlink_metadata().unwrap().is_symlink(), "{link}");
    }
}

#[test]
fn links_and_modes_stay() {
    let here = prepared();
    std::fs::create_dir(here.path("there")).unwrap();
    std::fs::write(here.path("there/real"), "old").unwrap();
    std::fs::set_permissions(here.path("there/real"), Permissions::from_mode(0o640)).unwrap();
    symlink("there/real", here.path("link")).unwrap();
    symlink("link", here.path("second")).unwrap();
    symlink("there/new", here.path("dangling")).unwrap();
    here.ok("export ./p second --format tsv");
    here.ok("export ./p dangling --format tsv");
    for (link, file) in [("second", "there/real"), ("dangling", "there/new")] {
        let is_link = |name: &str| here.path(name).symlink_metadata().unwrap().is_symlink();
        assert!(is_link(link) && !is_link(file), "{link}");
        assert_eq!(
            std::fs::read_to_string(here.path(file)).unwrap(),
            "key\tvalue\n",
            "{link}"
        );
    }
    assert_eq!(mode(&here.path("there/real")), 0o640);
    assert_eq!(names(&here.path("there")), ["new", "real"]);
}

#[test]
fn an_export_is_nobodys_who_may_not_read_the_pool() {
    let here = prepared();
    let cenote = env!("CARGO_BIN_EXE_cenote");
    let export = |umask: &str, name: &str| {
        let script = format!("umask {umask}; exec \"$0\" export ./p {name} --format tsv > /dev/null");
        let mut command = Command::new("sh");
        command.args(["-c", &script, cenote]).current_dir(here.0.path());
        assert!(command.status().unwrap().success());
        mode(&here.path(name))
    };
    for (pool, umask, file) in [
        (0o600, "022", 0o600),
        (0o600, "000", 0o600),
        (0o640, "000", 0o640),
        (0o660, "022", 0o640),
        (0o644, "077", 0o600),
    ] {
        std::fs::set_permissions(here.path("p"), Permissions::from_mode(pool)).unwrap();
        let name = format!("{pool:o}-{umask}");
        assert_eq!(export(umask, &name), file, "{name}");
    }
    // The mode of what is there stays.
    std::fs::set_permissions(here.path("p"), Permissions::from_mode(0o600)).unwrap();
    std::fs::set_permissions(here.path("600-022"), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(export("077", "600-022"), 0o644);
    // Only root can make the pool another group's.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(here.path("p"), None, Some(65534)).unwrap();
        std::fs::set_permissions(here.path("p"), Permissions::from_mode(0o660)).unwrap();
        assert_eq!(export("000", "another-group"), 0o600);
    }
}

#[test]
fn what_another_user_may_have_planted_is_not_followed() {
    let here = prepared();
    let open = here.path("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
    std::fs::write(here.path("victim"), "precious").unwrap();
    symlink("../victim", open.join("link")).unwrap();
    symlink("../new", open.join("dangling")).unwrap();
    std::fs::write(open.join("file"), "planted").unwrap();
    pipe(&open.join("pipe"));
    symlink("open/link", here.path("second")).unwrap();
    let all = ["open/link", "open/dangling", "open/file", "open/pipe", "second"];
    // Only root can make them another user's. Otherwise they are ours, and ours are followed.
    if rustix::process::geteuid().is_root() {
        for name in ["link", "dangling", "file", "pipe"] {
            std::os::unix::fs::lchown(open.join(name), Some(65534), None).unwrap();
        }
        for name in all {
            let message = here.fails(1, &format!("export ./p {name} --format tsv"));
            assert!(message.contains("another user's"), "{name}: {message}");
        }
        assert_eq!(std::fs::read_to_string(here.path("victim")).unwrap(), "precious");
        assert!(!here.path("new").exists());
        std::os::unix::fs::chown(&open, Some(65534), None).unwrap();
    }
    // The folder's owner may have links in it.
    for name in ["open/link", "open/dangling", "open/file", "second"] {
        here.ok(&format!("export ./p {name} --format tsv"));
    }
    assert_eq!(
        std::fs::read_to_string(here.path("victim")).unwrap(),
        "key\tvalue\n"
    );
}

#[test]
fn an_interrupted_command_leaves_what_was_there() {
    let here = Here::new();
    std::fs::write(here.path("trace"), "old").unwrap();
    let mut child = here
        .command(["trace", "generate", "trace", "--operations", "4000M"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while names(here.0.path()).len() == 1 {
        assert!(begin.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(child.id().into(), libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(128 + libc::SIGTERM));
    assert_eq!(names(here.0.path()), ["trace"]);
    assert_eq!(std::fs::read_to_string(here.path("trace")).unwrap(), "old");
}

#[test]
fn results_of_a_campaign_go_to_files_only() {
    let here = prepared();
    pipe(&here.path("pipe"));
    let pool = std::fs::read(here.path("p")).unwrap();
    for name in ["p", "pipe", "/dev/null"] {
        let message = here.fails(
            1,
            &format!("sim campaign --results {name} --seeds 1 --subjects hash"),
        );
        assert!(message.contains("it is a "), "{message}");
    }
    assert!(std::fs::read(here.path("p")).unwrap() == pool);
}

#[test]
fn torture_leaves_a_pool_that_is_there() {
    let here = prepared();
    assert_eq!(here.run("torture --pool ./p --seconds 1").code, Some(1));
    assert_eq!(here.ok("get ./p key"), "value");
}

/// The agent of host 1 on a pool, as soon as its socket answers.
fn agent(here: &Here, socket: &str) -> std::process::Child {
    let mut child = here
        .command(["agent", "./pod", "--host", "1", "--health", socket])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It says that it is up.
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    child
}

fn end(mut agent: std::process::Child) {
    kill(agent.id().into(), libc::SIGTERM);
    assert_eq!(agent.wait().unwrap().code(), Some(0));
}

#[test]
fn health_takes_no_name_that_is_somebody_elses() {
    let here = prepared();
    here.ok("create ./pod --hosts 4 --size 4MiB");
    std::fs::write(here.path("file"), "text").unwrap();
    std::fs::create_dir(here.path("folder")).unwrap();
    pipe(&here.path("pipe"));
    symlink("file", here.path("link")).unwrap();
    let living = UnixListener::bind(here.path("living")).unwrap();
    // A socket on which no process answers, and one that is no stream.
    drop(UnixListener::bind(here.path("left")).unwrap());
    let _datagrams = std::os::unix::net::UnixDatagram::bind(here.path("datagrams")).unwrap();
    let before = names(here.0.path());
    let mut refused: Vec<(&str, &str)> = vec![
        ("file", "it is a file"),
        ("p", "it is a pool"),
        ("folder", "it is a folder"),
        ("pipe", "it is a pipe"),
        ("link", "it is a symbolic link"),
        ("living", "somebody answers"),
        ("datagrams", "nobody can tell"),
    ];
    // Only root can make a socket another user's.
    if rustix::process::geteuid().is_root() {
        drop(UnixListener::bind(here.path("another")).unwrap());
        std::os::unix::fs::chown(here.path("another"), Some(65534), None).unwrap();
        refused.push(("another", "another user's"));
    }
    for (name, why) in refused {
        let message = here.fails(1, &format!("agent ./pod --host 1 --health {name}"));
        assert!(message.contains(why), "{name}: {message}");
        assert!(here.path(name).symlink_metadata().is_ok(), "{name}");
    }
    assert!(before.iter().all(|name| names(here.0.path()).contains(name)));
    assert_eq!(here.ok("get ./p key"), "value");
    drop(living);

    // The host did not go up. A socket on which no process answers is replaced, and removed in the end.
    let running = agent(&here, "left");
    let mut told = String::new();
    UnixStream::connect(here.path("left"))
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    let told: serde_json::Value = serde_json::from_str(&told).expect(&told);
    assert_eq!(told["generation"], 0, "{told}");
    end(running);
    assert!(here.path("left").symlink_metadata().is_err());

    // What has its name by then stays.
    let running = agent(&here, "left");
    std::fs::remove_file(here.path("left")).unwrap();
    std::fs::write(here.path("left"), "another's").unwrap();
    end(running);
    assert_eq!(std::fs::read_to_string(here.path("left")).unwrap(), "another's");
}

#[test]
fn values_and_secrets_are_read_up_to_a_limit() {
    let here = Here::new();
    here.ok("create ./p --size 4MiB --max 4MiB");
    here.ok("put ./p k v");
    std::fs::File::create(here.path("long"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let mut secret = std::fs::File::create(here.path("secret")).unwrap();
    secret.write_all(&[b'x'; (64 << 10) + 1]).unwrap();
    for line in [
        "put ./p k --file long",
        "put ./p k --file /dev/zero",
        "group list ./p g --token-file secret",
        "group list ./p g --token-file /dev/zero",
        "sim hash --seed 1 --profile /dev/zero",
        "trace stat /dev/zero --format txt",
        "replay /dev/zero --format twitter",
    ] {
        let message = here.fails(if line.starts_with("sim") { 2 } else { 1 }, line);
        let is_told = message.contains("at most") || message.contains("more than");
        assert!(is_told, "{line}: {message}");
    }
    for (file, why) in [
        ("secret", "more than 4096 bytes"),
        ("/dev/zero", "more than 4096 bytes"),
    ] {
        let mut command = here.command(["agent", "./p"]);
        let output = command
            .env_remove("CENOTE_HOST")
            .env("CENOTE_HOST_FILE", file)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {told}");
        assert!(told.contains(why), "{file}: {told}");
    }
    let ran = here.run_with("put ./p k -", &vec![0; 5 << 20]);
    assert!(ran.code == Some(1) && ran.stderr.contains("at most"), "{ran:?}");
    assert_eq!(here.ok("get ./p k"), "v");
    std::fs::write(here.path("short"), vec![7; 100_000]).unwrap();
    here.ok("put ./p k --file short");
    assert_eq!(here.run("get ./p k").stdout, vec![7; 100_000]);
}

#[test]
fn another_users_file_is_replaced_only_where_that_is_permitted() {
    // As root everything is: an ordinary user does it.
    let here = Here::new();
    let cenote: PathBuf = here.path("cenote");
    super::threads::copy_of_the_command(&cenote);
    std::fs::set_permissions(here.0.path(), Permissions::from_mode(0o755)).unwrap();
    let mine = here.path("mine");
    std::fs::create_dir(&mine).unwrap();
    std::fs::write(mine.join("fixed"), "old").unwrap();
    std::fs::set_permissions(mine.join("fixed"), Permissions::from_mode(0o444)).unwrap();
    std::fs::create_dir(mine.join("shut")).unwrap();
    std::fs::set_permissions(mine.join("shut"), Permissions::from_mode(0o555)).unwrap();
    for name in ["fixed", "shut/new"] {
        let mut command = super::threads::as_ordinary_user(&cenote, &mine);
        command.args(["trace", "generate", name, "--operations", "3"]);
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert_eq!(output.status.code(), Some(1), "{name}: {told}");
        assert!(told.contains("permission denied"), "{name}: {told}");
    }
    assert_eq!(std::fs::read_to_string(mine.join("fixed")).unwrap(), "old");
    assert_eq!(names(&mine), ["fixed", "shut"]);
}

#[test]
fn a_file_that_may_not_become_so_long_is_an_error_and_nothing_is_left() {
    let here = prepared();
    for (line, limit) in [
        ("export ./p out --format tsv", 0),
        ("trace generate out --operations 100000", 4096),
    ] {
        let mut command = Command::new("prlimit");
        command
            .arg(format!("--fsize={limit}"))
            .arg(env!("CARGO_BIN_EXE_cenote"));
        let out = command
            .args(line.split(' '))
            .current_dir(here.path("."))
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(1), "{line}: {out:?}");
        let left = names(&here.path("."));
        assert!(
            left.iter().all(|name| !name.contains("partial") && name != "out"),
            "{line}: {left:?}"
        );
    }
}
