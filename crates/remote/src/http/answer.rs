//! What a server's answer means.

use super::fault::Fault;
use bytes::Bytes;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use object_store::client::{HttpResponse, HttpResponseBody};

/// As much of an error's body is read, and no more.
const EXPLANATION: usize = 8 << 10;
/// Codes by which a server says that the whole bucket is missing, with a status that would else mean one entry.
const NO_BUCKET: [&str; 3] = ["NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"];

/// Passes on what `object_store` is to see; the rest is a fault.
pub(crate) async fn sort(method: Method, answer: Response<Incoming>) -> Result<HttpResponse, Fault> {
    let status = answer.status();
    if status.is_success() {
        let (parts, body) = answer.into_parts();
        let body = body.map_err(|error| Fault::of_body(&error).into_http());
        return Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)));
    }
    let (mut parts, body) = answer.into_parts();
    let code = match parts.headers.get("x-ms-error-code") {
        Some(code) => plain(code.as_bytes()),
        // An end that does not come in time, or is too far away, is no reason to fail differently.
        None => Limited::new(body, EXPLANATION).collect().await.ok().and_then(|body| code(&body.to_bytes())),
    };
    match status {
        // Another process has made the folder first.
        StatusCode::METHOD_NOT_ALLOWED if method.as_str() == "MKCOL" => parts.status = StatusCode::CREATED,
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED | StatusCode::NOT_MODIFIED => {}
        StatusCode::NOT_FOUND if !code.as_deref().is_some_and(|code| NO_BUCKET.contains(&code)) => {}
        _ => return Err(Fault::Status { method, status, code }),
    }
    Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(Bytes::new())))
}

/// The code in an error document of S3, GCS or Azure.
fn code(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    plain(code.as_bytes())
}

/// A word of letters and digits; anything else is not repeated to anybody.
fn plain(code: &[u8]) -> Option<String> {
    let good = !code.is_empty() && code.len() <= 64 && code.iter().all(u8::is_ascii_alphanumeric);
    good.then(|| String::from_utf8_lossy(code).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_one_word() {
        let document = "<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><BucketName>b</BucketName></Error>";
        assert_eq!(code(document.as_bytes()).as_deref(), Some("NoSuchBucket"));
        for other in ["<Code>a b</Code>", "<Code></Code>", "<Code>\u{1b}[31m</Code>", "<Code>x", "no code", "<Code>=?secret</Code>"] {
            assert_eq!(code(other.as_bytes()), None, "{other}");
        }
        assert_eq!(code(&[0xff; 40]), None);
        assert_eq!(plain(&[b'a'; 65]), None);
    }
}
