//! Drives the service as clients do, over sockets: golden vectors, bad input, slow clients, 64 at once, shutdown.

use std::io::{BufRead, BufReader, Cursor, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use npyz::WriterBuilder;

const TOLERANCE: f64 = 1e-12;
/// What the service and its clients wait for one another, unless a test says less: so long that a busy machine is no
/// reason to end it.
const HANG_SECONDS: &str = "3600";

struct Service {
    process: Child,
    address: SocketAddr,
}

impl Service {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_rust_service"))
            .args(["--listen", "127.0.0.1:0", "--seconds", HANG_SECONDS])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null()) // panics, if any, are seen as a status of 500
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect(&line).parse().unwrap();
        Service { process, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        let limit = Duration::from_secs(HANG_SECONDS.parse().unwrap());
        stream.set_read_timeout(Some(limit)).unwrap();
        stream
    }

    fn request(&self, text: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(text.as_bytes()).unwrap();
        Answer::read(stream)
    }

    fn post(&self, path: &str, body: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(head(path, body.len()).as_bytes()).unwrap();
        let _ = stream.write_all(body); // the service may answer before it has read everything
        Answer::read(stream)
    }

    fn is_well(&self) -> bool {
        self.request("GET /health HTTP/1.1\r\nHost: x\r\n\r\n").status == 200
    }

    fn terminate(&self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn head(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n")
}

/// Status 0: the connection ended without an answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl Answer {
    fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Answer { status: 0, body: bytes };
        };
        let status = String::from_utf8_lossy(&bytes[9..12]).parse().unwrap();
        Answer { status, body: bytes.split_off(end + 4) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn expect(&self, status: u16, words: &str) {
        let text = self.text();
        assert!(self.status == status && text.contains(words), "{}: {text}", self.status);
        assert!(text.trim_end().lines().count() <= 1, "{text}");
    }
}

fn golden_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "npz")).collect();
    assert!(files.len() >= 16);
    files
}

fn golden(name: &str) -> Vec<u8> {
    let path = golden_files().into_iter().find(|path| path.ends_with(name)).unwrap();
    std::fs::read(path).unwrap()
}

/// The float64 arrays of an .npz.
fn arrays(npz: &[u8]) -> Vec<(String, Vec<f64>)> {
    let mut archive = zip::ZipArchive::new(Cursor::new(npz)).expect("an .npz");
    let mut found = Vec::new();
    for index in 0..archive.len() {
        let entry = archive.by_index(index).unwrap();
        let name = entry.name().strip_suffix(".npy").unwrap().to_string();
        let array = npyz::NpyFile::new(entry).unwrap();
        if let Ok(numbers) = array.into_vec() {
            found.push((name, numbers));
        }
    }
    found
}

/// Every array of the answer is that of the golden file; their number.
fn check(answer: &Answer, golden: &[u8]) -> usize {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let exact = arrays(golden);
    let actual = arrays(&answer.body);
    for (name, actual) in &actual {
        let exact = &exact.iter().find(|(other, _)| other == name).expect(name).1;
        let largest = exact.iter().fold(f64::MIN_POSITIVE, |m, x| m.max(x.abs()));
        assert_eq!(actual.len(), exact.len());
        for (a, e) in actual.iter().zip(exact) {
            assert!((a - e).abs() <= TOLERANCE * largest, "{name}: {a} and {e}");
        }
    }
    actual.len()
}

#[test]
fn golden_vectors() {
    let service = Service::start(&[]);
    for file in golden_files() {
        let body = std::fs::read(file).unwrap();
        assert_eq!(check(&service.post("/forward", &body), &body), 1);
        assert!(check(&service.post("/backward", &body), &body) >= 3);
    }
}

/// The .npy of an array, from its header.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn array<T: npyz::AutoSerialize + Copy>(shape: &[u64], numbers: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = npyz::WriteOptions::new().default_dtype().shape(shape);
    let mut writer = options.writer(&mut bytes).begin_nd().unwrap();
    writer.extend(numbers.iter().copied()).unwrap();
    writer.finish().unwrap();
    bytes
}

fn npz(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        archive.start_file(format!("{name}.npy"), Default::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// One point in the middle of a map of 2 x 2, with another array in the place of one of its.
fn small(name: &str, bytes: Vec<u8>) -> Vec<u8> {
    let mut entries = vec![
        ("level_hw", array(&[1, 2], &[2i64, 2])),
        ("points", array(&[1], &[1i32])),
        ("value", array(&[1, 4, 1, 1], &[1.0f32, 2.0, 3.0, 4.0])),
        ("coord", array(&[1, 1, 1, 1, 2], &[0.5f32, 0.5])),
        ("weight", array(&[1, 1, 1, 1], &[1.0f32])),
    ];
    entries.retain(|(other, _)| *other != name);
    if !bytes.is_empty() {
        entries.push((name, bytes));
    }
    npz(&entries)
}

/// Two points on each of two levels, in the names of models; the result of each is the value of its pixel.
#[test]
fn names_of_models() {
    let request = |starts: &[i64], weights: &[u64]| {
        npz(&[
            ("spatial_shapes", array(&[2, 2], &[1i64, 2, 1, 1])),
            ("level_start_index", array(&[starts.len() as u64], starts)),
            ("value", array(&[1, 3, 1, 1], &[1.0f32, 2.0, 4.0])),
            (
                "sampling_locations",
                array(&[1, 1, 1, 2, 2, 2], &[0.25f32, 0.5, 0.75, 0.5, 0.5, 0.5, 0.5, 0.5]),
            ),
            ("attention_weights", array(weights, &[1.0f32, 10.0, 100.0, 1000.0])),
        ])
    };
    let service = Service::start(&[]);
    let shape = [1, 1, 1, 2, 2];
    let first = |body: &[u8]| {
        let answer = service.post("/forward", body);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        let mut archive = zip::ZipArchive::new(Cursor::new(answer.body)).unwrap();
        let mut bytes = Vec::new();
        archive.by_name("output.npy").unwrap().read_to_end(&mut bytes).unwrap();
        f32::from_le_bytes(bytes[bytes.len() - 4..].try_into().unwrap())
    };
    assert_eq!(first(&request(&[0, 2], &shape)), 1.0 + 20.0 + 4400.0);
    assert_eq!(first(&request(&[1, 0], &shape)), 2.0 + 40.0 + 1100.0);
    let refused =
        |body: &[u8], status, words: &str| service.post("/forward", body).expect(status, words);
    refused(
        &request(&[0, 2], &[1, 1, 1, 4]),
        400,
        "attention_weights has 4 dimensions: must have 5",
    );
    refused(
        &request(&[0, 2], &[1, 1, 1, 1, 4]),
        400,
        "attention_weights has shape [1, 1, 1, 1, 4]: must have [1, 1, 1, 2, 2]",
    );
    refused(&request(&[0, 3], &shape), 422, "since level 1 is tokens 3 to 3");
}

#[test]
fn bad_input() {
    let service = Service::start(&["--body-mib", "1"]);
    let refused = |body: &[u8], status, words: &str| {
        service.post("/forward", body).expect(status, words);
        assert!(service.is_well());
    };
    let good = small("", Vec::new());
    assert_eq!(service.post("/forward", &good).status, 200);

    refused(b"", 400, "the body is not an .npz");
    refused(b"{\"not\": \"an npz\"}", 400, "the body is not an .npz");
    refused(&good[..good.len() / 2], 400, "the body is not an .npz");
    refused(&small("value", Vec::new())[..], 400, "value is missing");
    let header =
        |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let value = |header: &str, data: &[u8]| small("value", npy(header, data));
    refused(&small("value", b"nonsense".to_vec()), 400, "value is no .npy array");
    refused(&small("value", b"nonsense that is longer".to_vec()), 400, "value is no .npy array");
    refused(&value("{'descr'", &[]), 400, "value is no .npy array");
    refused(&value(&"(".repeat(60000), &[]), 400, "its header has 60000 bytes, more than 1024");
    refused(&value(&"[".repeat(1000), &[]), 400, "value is no .npy array");
    refused(&value(&header("(1, 4, 1, 1)"), &[0; 8]), 400, "does not fit its 8 bytes");
    let huge = header("(1, 4294967296, 4294967296, 4294967296)");
    refused(&value(&huge, &[0; 16]), 400, "does not fit its 16 bytes");
    refused(&value(&header("(0, 4294967296, 4294967296, 1)"), &[]), 400, "value has shape [0, ");
    let fortran = header("(1, 4, 1, 1)").replace("False", "True");
    refused(&value(&fortran, &[0; 16]), 400, "value is in Fortran order");
    refused(&small("value", array(&[1, 4, 1, 1], &[1i32; 4])), 400, "value is of type i4");
    refused(&small("value", array(&[1, 4, 1, 1], &[1.0f64; 4])), 400, "coord is of type");
    refused(
        &small("value", array(&[4, 1], &[1.0f32; 4])),
        400,
        "value has 2 dimensions: must have 4",
    );
    refused(&small("coord", array(&[1, 1, 1, 2, 1], &[0.5f32; 2])), 400, "coord has shape");
    refused(&small("level_hw", array(&[1, 2], &[1i64 << 40, 2])), 400, "must be an int32");
    refused(&small("level_hw", array(&[2, 2], &[i32::MAX; 4])), 400, "value has shape");
    refused(&small("level_hw", array(&[1, 2], &[-2i32, -2])), 422, "level_hw");
    refused(
        &small("points", array(&[1, 1], &[1i32])),
        400,
        "points has shape [1, 1]: must have [L]",
    );
    service.post("/backward", &good).expect(400, "grad_output is missing");

    // 8 KiB that unpack to 8 MiB, a result of 64 MiB, and 10^11 products for one number each.
    refused(&small("value", vec![0; 8 << 20]), 413, "unpacks to more than 1048576 bytes");
    let wide = npz(&[
        ("level_hw", array(&[1, 2], &[1i32, 1])),
        ("points", array(&[1], &[1i32])),
        ("value", array(&[1, 1, 1, 16384], &[1.0f32; 16384])),
        ("coord", array(&[1, 1024, 1, 1, 2], &[0.5f32; 2048])),
        ("weight", array(&[1, 1024, 1, 1], &[1.0f32; 1024])),
    ]);
    refused(&wide, 413, "is larger than 1048576 bytes");
    let service = Service::start(&["--body-mib", "16", "--seconds", "10", "--threads", "1"]);
    let long = npz(&[
        ("level_hw", array(&[1, 2], &[1i32, 1])),
        ("points", array(&[1], &[500_000i32])),
        ("value", array(&[1, 1, 1, 500_000], &vec![1.0f32; 500_000])),
        ("coord", array(&[1, 1, 1, 500_000, 2], &vec![0.5f32; 1_000_000])),
        ("weight", array(&[1, 1, 1, 500_000], &vec![1.0f32; 500_000])),
    ]);
    service.post("/forward", &long).expect(422, "is predicted to take");
}

/// Whatever is damaged, the answer is a result or a refusal, and never a failure of the service.
#[test]
fn every_byte_damaged() {
    let service = Service::start(&[]);
    let good = small("", Vec::new());
    let mut refused = 0;
    for index in 0..good.len() {
        let mut damaged = good.clone();
        damaged[index] ^= 0xff;
        for body in [&damaged[..], &good[..index]] {
            let answer = service.post("/forward", body);
            assert!([200, 400, 413, 422].contains(&answer.status), "byte {index}: {answer:?}");
            refused += usize::from(answer.status != 200);
        }
    }
    assert!(refused > good.len());
}

#[test]
fn http_that_is_not_for_it() {
    let service = Service::start(&["--body-mib", "1"]);
    assert_eq!(service.request("GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n").status, 404);
    assert_eq!(service.request("GET /forward HTTP/1.1\r\nHost: x\r\n\r\n").status, 405);
    assert_eq!(service.request("\x16\x03\x01 this is not HTTP\r\n\r\n").status, 400);
    assert!(service.request("GET / HTTP/1.1\r\nHost: x\r\n\r\n").text().contains("POST /forward"));
    service.post("/forward", &vec![0; (1 << 20) + 1]).expect(413, "more than 1048576 bytes");
    let chunked =
        "POST /forward HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n";
    assert_eq!(service.request(chunked).status, 400);
    assert!(service.is_well());
}

/// A client that sends the first half of its body.
fn half_a_body(service: &Service, body: &[u8]) -> TcpStream {
    let mut stream = service.connect();
    stream.write_all(head("/forward", body.len()).as_bytes()).unwrap();
    stream.write_all(&body[..body.len() / 2]).unwrap();
    stream
}

fn half_a_head(service: &Service) -> TcpStream {
    let mut stream = service.connect();
    stream.write_all(b"POST /forward HTTP/1.1\r\nHost:").unwrap();
    stream
}

#[test]
fn slow_clients_do_not_hold_up_others() {
    let service = Service::start(&[]);
    let _slow = (half_a_head(&service), half_a_body(&service, &golden("ddetr_test.npz")));
    let other = golden("head_dim_3.npz");
    check(&service.post("/forward", &other), &other);
}

#[test]
fn slow_clients_are_ended() {
    let service = Service::start(&["--seconds", "3", "--connections", "16"]);
    let without_body = half_a_body(&service, &golden("ddetr_test.npz"));
    let without_head = half_a_head(&service);
    // A byte now and then: all of them would take more than half an hour.
    let mut dripping = service.connect();
    dripping.write_all(head("/forward", 100_000).as_bytes()).unwrap();
    let dripper = std::thread::spawn(move || {
        (0..100_000).find(|_| {
            std::thread::sleep(Duration::from_millis(20));
            dripping.write_all(b"x").is_err()
        })
    });
    Answer::read(without_body).expect(408, "the body did not arrive in 3 s");
    let status = Answer::read(without_head).status;
    assert!(status == 0 || status == 408, "{status}");
    assert!(dripper.join().unwrap().is_some(), "every byte was waited for");

    // As many silent ones as there are connections: they are ended, and the next is served.
    let silent: Vec<_> = (0..16).map(|_| service.connect()).collect();
    assert!(service.is_well());
    drop(silent);
}

#[test]
fn sixty_four_clients_at_once() {
    let service = Service::start(&[]);
    let files: Vec<_> = golden_files().iter().map(|path| std::fs::read(path).unwrap()).collect();
    std::thread::scope(|scope| {
        for client in 0..64 {
            let (service, body) = (&service, &files[client % files.len()]);
            scope.spawn(move || {
                // Every eighth one leaves before it has its answer.
                if client % 8 == 7 {
                    let mut stream = service.connect();
                    stream.write_all(head("/forward", body.len()).as_bytes()).unwrap();
                    stream.write_all(body).unwrap();
                } else {
                    check(&service.post("/forward", body), body);
                }
            });
        }
    });
    assert!(service.is_well());
}

#[test]
fn a_request_is_answered_before_the_end() {
    let mut service = Service::start(&[]);
    let body = golden("encoder_small.npz");
    let mut stream = service.connect();
    let head = head("/forward", body.len());
    write!(stream, "{}\r\nExpect: 100-continue\r\n\r\n", head.trim_end()).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    service.terminate();
    while TcpStream::connect(service.address).is_ok() {} // it takes nobody else
    stream.write_all(&body).unwrap();
    check(&Answer::read(stream), &body);
    assert!(service.process.wait().unwrap().success());
}

#[test]
fn options() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_rust_service")).args(arguments).output();
        let output = output.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, help, _) = run(&["--help"]);
    assert!(status == Some(0) && help.contains("--body-mib") && help.contains("POST /forward"));
    for (arguments, words) in [
        (&["--seconds", "0"][..], "must be 1 to 3600"),
        (&["--speed", "9"], "--speed"),
        (&["--listen", "nowhere"], "nowhere"),
        (&["--connections"], "--connections"),
    ] {
        let (status, _, error) = run(arguments);
        assert!(status == Some(2) && error.contains(words), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let service = Service::start(&[]);
    let (status, _, error) = run(&["--listen", &service.address.to_string()]);
    assert!(status == Some(1) && error.contains("in use"), "{error}");
}
