//! Names in folders that others may write: planted links, pipes and files, files of other users, and the permission
//! bits of new files.
//!
//! Cases that need another user run as root, with files that are given away, and with a thread that becomes `nobody`.

use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use cenote::memory::Distrust;
use cenote::{Coherent, Delegated, Error, Options, Pool};

mod thread;

use thread::{NOBODY, Refusing, is_root, with};

/// The time after which a call counts as hanging.
const TIMEOUT: Duration = Duration::from_secs(60);

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    // Others shall get as far as to the files.
    set_mode(folder.path(), 0o755);
    folder
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

fn locked_by(lock_file: &Path) -> Options {
    Options {
        lock_file: Some(lock_file.to_owned()),
        ..Options::default()
    }
}

fn trusting(options: &Options) -> Options {
    Options {
        trust_owner: true,
        ..options.clone()
    }
}

fn create(path: &Path, options: &Options) -> cenote::Result<()> {
    let pool = Pool::<Coherent>::create(path, options)?;
    pool.map("m")?.put(b"k", b"v")?;
    Ok(())
}

fn open(path: &Path, options: &Options) -> cenote::Result<()> {
    let pool = Pool::<Coherent>::open(path, options)?;
    assert_eq!(pool.map("m")?.get(b"k")?.as_deref(), Some(&b"v"[..]));
    Ok(())
}

/// All calls that open a path.
fn all_ways(path: &Path, options: &Options) -> Vec<(&'static str, cenote::Result<()>)> {
    vec![
        ("open", open(path, options)),
        (
            "open_or_create",
            Pool::<Coherent>::open_or_create(path, options).map(drop),
        ),
        ("create", create(path, options)),
        ("kind_of", cenote::kind_of(path).map(drop)),
        ("pool_id", cenote::pool_id(path).map(drop)),
        ("has_hosts", cenote::has_hosts(path).map(drop)),
        (
            "an agent",
            cenote::HostAgent::<Coherent>::start(
                path,
                &Options {
                    host: 1,
                    ..options.clone()
                },
            )
            .map(drop),
        ),
    ]
}

fn says<T>(result: cenote::Result<T>, words: &[&str]) {
    let error = result.err().expect("it should be refused").to_string();
    for word in words {
        assert!(error.contains(word), "{word:?} is missing: {error}");
    }
}

#[test]
fn a_link_is_not_followed_where_a_pool_is_named() {
    let folder = folder();
    let (path, link) = (folder.path().join("pool"), folder.path().join("link"));
    create(&path, &Options::default()).unwrap();
    let before = std::fs::read(&path).unwrap();
    for target in [
        &path,
        Path::new("pool"),
        Path::new("no/such/file"),
        Path::new("link"),
    ] {
        symlink(target, &link).unwrap();
        for (way, opened) in all_ways(&link, &Options::default()) {
            let error = opened
                .err()
                .unwrap_or_else(|| panic!("{way} of a link to {target:?}"));
            let (text, link) = (error.to_string(), link.to_str().unwrap());
            assert!(
                text.contains("symbolic link") && text.contains(link),
                "{way}: {text}"
            );
        }
        std::fs::remove_file(&link).unwrap();
    }
    assert!(
        std::fs::read(&path).unwrap() == before,
        "it was changed through a link"
    );
    // A link that is not the last part of the name is no trap.
    symlink(folder.path(), &link).unwrap();
    open(&link.join("pool"), &Options::default()).unwrap();
}

#[test]
fn a_link_is_not_followed_where_a_lock_file_is_named() {
    let folder = folder();
    let path = folder.path().join("pool");
    let (link, target) = (folder.path().join("link"), folder.path().join("target"));
    create(&path, &Options::default()).unwrap();
    symlink(&target, &link).unwrap();
    let opens = |options: &Options| {
        says(open(&path, options), &["symbolic link", link.to_str().unwrap()]);
        says(create(&folder.path().join("new"), options), &["symbolic link"]);
    };
    opens(&locked_by(&link));
    assert!(!target.exists(), "a planted link made a file");
    std::fs::write(&target, "somebody's").unwrap();
    opens(&locked_by(&link));
    // Nor one to the pool itself.
    std::fs::remove_file(&link).unwrap();
    symlink(&path, &link).unwrap();
    opens(&locked_by(&link));
    assert_eq!(std::fs::read(&target).unwrap(), b"somebody's");
}

#[test]
fn nothing_that_is_named_keeps_anybody_waiting() {
    let folder = folder();
    let good = folder.path().join("pool");
    create(&good, &Options::default()).unwrap();
    let [pipe, socket, inner] = ["pipe", "socket", "folder"].map(|name| folder.path().join(name));
    let name = std::ffi::CString::new(pipe.as_os_str().as_bytes()).unwrap();
    // SAFETY: a valid string and a plain system call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::fs::create_dir(&inner).unwrap();
    for place in [
        pipe,
        socket,
        inner,
        PathBuf::from("/dev/null"),
        PathBuf::from("/dev/tty"),
    ] {
        let (tell, told) = channel();
        let (good, shown) = (good.clone(), place.clone());
        std::thread::spawn(move || {
            let mut all = all_ways(&place, &Options::default());
            all.push(("a lock file", open(&good, &locked_by(&place))));
            let _ = tell.send(all);
        });
        let all = told.recv_timeout(TIMEOUT);
        for (way, opened) in all.unwrap_or_else(|_| panic!("{shown:?} keeps somebody waiting")) {
            let error = opened.err().unwrap_or_else(|| panic!("{way} of {shown:?}"));
            assert!(
                error.to_string().contains(shown.to_str().unwrap()),
                "{way}: {error}"
            );
        }
    }
}

#[test]
fn what_every_user_may_write_is_not_opened_unless_that_is_wanted() {
    let folder = folder();
    let (path, locks) = (folder.path().join("pool"), folder.path().join("locks"));
    create(&path, &locked_by(&locks)).unwrap();
    for (spoilt, other) in [(&path, &locks), (&locks, &path)] {
        set_mode(spoilt, 0o606);
        let refused = open(&path, &locked_by(&locks));
        assert!(
            matches!(&refused, Err(Error::Distrusted { path, why: Distrust::Everybody { mode: 0o606, .. } }) if path == spoilt),
            "{refused:?}"
        );
        says(
            refused,
            &["--trust-owner", "606", "chmod o-w", spoilt.to_str().unwrap()],
        );
        open(&path, &trusting(&locked_by(&locks))).unwrap();
        set_mode(spoilt, 0o660);
        set_mode(other, 0o664);
        open(&path, &locked_by(&locks)).unwrap();
    }
}

#[test]
fn who_wants_a_pool_for_everybody_gets_it() {
    let folder = folder();
    for (name, locks) in [("alone", None), ("with-locks", Some(folder.path().join("locks")))] {
        let path = folder.path().join(name);
        let options = Options {
            mode: 0o666,
            lock_file: locks,
            ..Options::default()
        };
        create(&path, &options).unwrap();
        assert_eq!(mode(&path), 0o666);
        says(open(&path, &options), &["every user may write it"]);
        open(&path, &trusting(&options)).unwrap();
    }
    assert_eq!(mode(&folder.path().join("locks")), 0o666);
}

#[test]
fn files_of_other_users_are_not_opened_unless_that_is_wanted() {
    if !is_root() {
        // Only root can give a file away; `whose_files_are_used` in the memory layer tests the rule itself.
        return;
    }
    let folder = folder();
    let (path, locks) = (folder.path().join("pool"), folder.path().join("locks"));
    create(&path, &locked_by(&locks)).unwrap();
    for spoilt in [&path, &locks] {
        chown(spoilt, Some(NOBODY), Some(NOBODY)).unwrap();
        let refused = open(&path, &locked_by(&locks));
        let expected = Distrust::Owner {
            owner: NOBODY,
            user: 0,
        };
        assert!(
            matches!(&refused, Err(Error::Distrusted { path, why }) if path == spoilt && *why == expected),
            "{refused:?}"
        );
        says(
            refused,
            &["65534", "--trust-owner", "trust_owner", spoilt.to_str().unwrap()],
        );
        open(&path, &trusting(&locked_by(&locks))).unwrap();
        chown(spoilt, Some(0), Some(0)).unwrap();
    }
    // Reading a pool's kind does not join it: the owner is checked when it is opened.
    chown(&path, Some(NOBODY), None).unwrap();
    cenote::kind_of(&path).unwrap();
    let agent = Options {
        host: 1,
        ..Options::default()
    };
    let refused = cenote::HostAgent::<Coherent>::start(&path, &agent).map(drop);
    assert!(matches!(refused, Err(Error::Distrusted { .. })), "{refused:?}");
}

#[test]
fn users_trust_themselves_and_root_and_whom_they_say() {
    let folder = folder();
    let [own, roots, for_all] = ["own", "root", "all"].map(|name| folder.path().join(name));
    if !is_root() {
        create(&own, &Options::default()).unwrap();
        open(&own, &Options::default()).unwrap();
        return;
    }
    set_mode(folder.path(), 0o777);
    for (path, mode) in [(&roots, 0o660), (&for_all, 0o666)] {
        create(
            path,
            &Options {
                mode,
                ..Options::default()
            },
        )
        .unwrap();
        chown(path, None, Some(NOBODY)).unwrap();
    }
    let paths = (own.clone(), roots.clone(), for_all.clone());
    with(Refusing::Nothing, Some(NOBODY), 0o022, move || {
        let (own, roots, for_all) = paths;
        create(&own, &Options::default()).unwrap();
        open(&own, &Options::default()).unwrap();
        open(&roots, &Options::default()).unwrap();
        says(
            open(&for_all, &Options::default()),
            &["every user may write it", "user 0"],
        );
        open(&for_all, &trusting(&Options::default())).unwrap();
    });
    says(open(&own, &Options::default()), &["belongs to user 65534", "(0)"]);
    // A file that cannot be opened at all gives that error, as ever.
    set_mode(&roots, 0o600);
    with(Refusing::Nothing, Some(NOBODY), 0o022, move || {
        says(
            open(&roots, &trusting(&Options::default())),
            &["Permission denied"],
        );
    });
}

#[test]
fn permission_bits_are_as_asked_whatever_the_mask() {
    for mask in [0o000, 0o022, 0o077, 0o777] {
        for bits in [0o600, 0o640, 0o660] {
            for refusing in [Refusing::Nothing, Refusing::NamelessFiles, Refusing::Links] {
                let folder = folder();
                let (path, locks) = (folder.path().join("pool"), folder.path().join("locks"));
                let options = Options {
                    mode: bits,
                    ..locked_by(&locks)
                };
                with(refusing, None, mask, {
                    let path = path.clone();
                    move || create(&path, &options).unwrap()
                });
                assert_eq!((mode(&path), mode(&locks)), (bits, bits), "{mask:o} {refusing:?}");
            }
        }
    }
}

#[test]
fn a_new_file_has_its_permission_bits_before_it_has_its_name() {
    let folder = folder();
    let (path, locks) = (folder.path().join("pool"), folder.path().join("locks"));
    create(&path, &Options::default()).unwrap();
    let (new, opened, options) = (folder.path().join("new"), path.clone(), locked_by(&locks));
    with(Refusing::Permissions, None, 0o077, move || {
        // Stopped where the bits are set: no other process could have opened the file before, or could be refused
        // still.
        says(open(&opened, &options), &["Operation not permitted", "locks"]);
        says(create(&new, &Options::default()), &["permissions"]);
    });
    let names: Vec<_> = folder
        .path()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["pool"]);
}

#[test]
fn a_planted_link_is_not_written_through_where_files_have_names_at_once() {
    for refusing in [Refusing::NamelessFiles, Refusing::Links] {
        let folder = folder();
        let [path, victim, locks] = ["pool", "victim", "locks"].map(|name| folder.path().join(name));
        std::fs::write(&victim, "somebody's").unwrap();
        for name in [&path, &locks] {
            let mut planted = name.clone().into_os_string();
            planted.push(format!(".creating-{}", std::process::id()));
            symlink(&victim, planted).unwrap();
        }
        let planted = folder.path().read_dir().unwrap().count();
        let (at, options) = (path.clone(), locked_by(&locks));
        with(refusing, None, 0o022, move || {
            create(&at, &options).unwrap();
            open(&at, &options).unwrap();
            // What has the name keeps it.
            says(create(&at, &options), &["exists"]);
        });
        assert!(
            std::fs::read(&victim).unwrap() == b"somebody's",
            "it was written through a link"
        );
        let links = folder.path().read_dir().unwrap().count();
        assert_eq!(
            links,
            planted + 2,
            "a temporary name is left, or a planted one gone"
        );
        assert!(path.symlink_metadata().unwrap().is_file());
    }
}

#[test]
fn a_name_that_is_taken_meanwhile_is_left_alone() {
    for refusing in [Refusing::NamelessFiles, Refusing::Links, Refusing::Nothing] {
        let folder = folder();
        let path = folder.path().join("pool");
        let (at, options) = (path.clone(), Options::default());
        let creators: Vec<_> = (0..4)
            .map(|_| {
                let (at, options) = (at.clone(), options.clone());
                std::thread::spawn(move || {
                    with(refusing, None, 0o022, move || {
                        let _pool = Pool::<Coherent>::open_or_create(&at, &options).unwrap();
                        cenote::pool_id(&at).unwrap()
                    })
                })
            })
            .collect();
        let ids: Vec<u64> = creators
            .into_iter()
            .map(|creator| creator.join().unwrap())
            .collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        let mut names: Vec<_> = folder
            .path()
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["pool"]);
    }
}

#[test]
fn a_pool_without_room_is_not_made() {
    let folder = folder();
    let path = folder.path().join("pool");
    let nothing = Options {
        size: 0,
        ..Options::default()
    };
    for created in [
        Pool::<Coherent>::create(&path, &nothing).map(drop),
        Pool::<Delegated>::create(&path, &nothing).map(drop),
        Pool::<Coherent>::open_or_create(&path, &nothing).map(drop),
    ] {
        assert!(matches!(created, Err(Error::InvalidOption { .. })), "{created:?}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    // A pool of the least size can be opened.
    create(
        &path,
        &Options {
            size: 1,
            ..Options::default()
        },
    )
    .unwrap();
    open(&path, &Options::default()).unwrap();
}

#[test]
fn a_pool_that_is_shorter_than_it_says_is_an_error() {
    let folder = folder();
    let path = folder.path().join("pool");
    create(&path, &Options::default()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let len = whole.len() as u64;
    for short in [0, 1, 511, 1023, 1024, 4096, 1 << 16, len / 2, len - 4096, len - 1] {
        std::fs::write(&path, &whole[..short as usize]).unwrap();
        let refused = open(&path, &Options::default());
        says(refused, &[if short < 1024 { "too short" } else { "truncated" }]);
    }
    std::fs::write(&path, &whole).unwrap();
    open(&path, &Options::default()).unwrap();
}
