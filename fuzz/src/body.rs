//! One stream of the C interface: what was given to it, and what came out.

use crate::c_interface::*;
use crate::check::BODIES;
use crate::decoders::Decoder;
use core::ffi::CStr;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use weft::codec::Kind;

/// A live stream.
pub struct Body {
    handle: *mut weft_stream,
    /// The queue that it names.
    pub queue: Option<usize>,
    /// Whether `on_ready` is called.
    pub calls_back: bool,
    /// The last that it said was AGAIN, and no news has come since.
    pub waits: bool,
    sent: Vec<u8>,
    marks: Vec<usize>,
    seen: usize,
    taken: u64,
    finished: bool,
    /// DONE or an error: nothing more comes of it.
    pub over: Option<weft_status>,
    decoder: Decoder,
}

impl Body {
    /// Begins a stream; its status, where it was refused.
    ///
    /// # Safety
    /// What `weft_stream_begin` asks for.
    pub unsafe fn begin(
        engine: *mut weft_engine,
        options: &weft_stream_options,
        kind: Kind,
        queue: Option<usize>,
    ) -> Result<Body, weft_status> {
        let mut handle = null_mut();
        // SAFETY: the caller's promise.
        let status = unsafe { weft_stream_begin(engine, options, &mut handle) };
        if status != WEFT_OK {
            assert!(handle.is_null(), "an output was written in spite of {status}");
            return Err(status);
        }
        let mut body = Body {
            handle,
            queue,
            calls_back: options.on_ready.is_some(),
            waits: false,
            sent: Vec::new(),
            marks: Vec::new(),
            seen: 0,
            taken: 0,
            finished: false,
            over: None,
            decoder: Decoder::new(kind, 23),
        };
        body.decoder = Decoder::new(kind, body.stats().window_log);
        Ok(body)
    }

    /// Judges an error: one that is due to a call that comes too late, or, with an `excuse`, to an
    /// engine that was shut down or whose tasks were given up.
    fn judge(&mut self, status: weft_status, excuse: &Cell<bool>) {
        let late = status == WEFT_E_STATE && self.finished;
        let shutdown = status == WEFT_E_SHUTDOWN && excuse.get();
        assert!(late || shutdown, "failed with {status}: {}", self.error());
        // An engine that is shut down gives no news to a stream with nothing under way, but the
        // owner has been told now.
        self.waits = false;
    }

    /// What it says of its failure.
    pub fn error(&self) -> String {
        // SAFETY: a live stream; the text lives as long.
        unsafe { CStr::from_ptr(weft_stream_error(self.handle)) }.to_string_lossy().into_owned()
    }

    /// Feeds bytes; how many were accepted.
    pub fn feed(&mut self, bytes: &[u8], excuse: &Cell<bool>) -> usize {
        let mut count = usize::MAX;
        // SAFETY: a live stream; the bytes are as many as is said.
        let status = unsafe {
            weft_stream_feed(self.handle, bytes.as_ptr().cast(), bytes.len(), &mut count)
        };
        if status < 0 {
            assert!(count == usize::MAX, "an output was written in spite of {status}");
            self.judge(status, excuse);
            return 0;
        }
        assert!(!self.finished && self.over.is_none(), "a feed after the end");
        match status {
            WEFT_OK => assert!(count == bytes.len(), "accepted in part without AGAIN"),
            WEFT_AGAIN => {
                assert!(count <= bytes.len());
                self.waits = true;
            }
            _ => panic!("feed answered {status}"),
        }
        self.sent.extend_from_slice(&bytes[..count]);
        count
    }

    /// Sets a flush mark.
    pub fn flush(&mut self, excuse: &Cell<bool>) {
        // SAFETY: a live stream.
        match unsafe { weft_stream_flush(self.handle) } {
            WEFT_OK => {
                assert!(!self.finished, "a flush after finish");
                self.marks.push(self.sent.len());
            }
            status => self.judge(status, excuse),
        }
    }

    /// Ends the body.
    pub fn finish(&mut self, excuse: &Cell<bool>) {
        // SAFETY: a live stream.
        match unsafe { weft_stream_finish(self.handle) } {
            WEFT_OK => {
                assert!(!self.finished, "a second finish");
                self.finished = true;
            }
            status => self.judge(status, excuse),
        }
    }

    /// Asks what there is.
    pub fn query(&mut self, excuse: &Cell<bool>) {
        let (mut count, mut events) = (0, 0);
        // SAFETY: a live stream.
        let status =
            unsafe { weft_stream_poll(self.handle, null_mut(), 0, &mut count, &mut events) };
        match status {
            WEFT_OK | WEFT_DONE => {
                assert!(events & WEFT_EVENT_FLUSHED == 0, "a query took a mark");
                assert!(count == 0 || events & WEFT_EVENT_MORE != 0, "bytes without MORE");
            }
            status => self.judge(status, excuse),
        }
    }

    /// Takes up to `cap` bytes, at least one; the answer.
    pub fn poll(&mut self, cap: usize, excuse: &Cell<bool>) -> weft_status {
        let mut room = vec![0u8; cap];
        let (mut count, mut events) = (usize::MAX, u32::MAX);
        // SAFETY: a live stream; the room is as large as is said.
        let status = unsafe {
            weft_stream_poll(self.handle, room.as_mut_ptr().cast(), cap, &mut count, &mut events)
        };
        if status < 0 {
            assert!(count == usize::MAX && events == u32::MAX, "outputs in spite of {status}");
            assert!(self.over.is_none_or(|over| over == status), "another error: {status}");
            assert!(status == WEFT_E_SHUTDOWN && excuse.get(), "{status}: {}", self.error());
            self.over = Some(status);
            return status;
        }
        assert!(count <= cap && self.over.is_none_or(|over| over == status));
        self.taken += count as u64;
        self.decoder.push(&room[..count], 1 + cap % 600).expect("it decodes");
        if events & WEFT_EVENT_FLUSHED != 0 {
            let mark = self.marks[self.seen];
            self.seen += 1;
            assert!(self.decoder.body.len() == mark, "all before the mark, and no more");
        }
        let flushed = events & WEFT_EVENT_FLUSHED != 0;
        match status {
            WEFT_OK => assert!(count > 0 || flushed, "neither bytes nor AGAIN"),
            WEFT_AGAIN => {
                assert!(count == 0 && events == 0, "AGAIN with something");
                self.waits = true;
            }
            WEFT_DONE => {
                assert!(events & WEFT_EVENT_DONE != 0 && self.finished, "DONE, not finished");
                self.over = Some(status);
            }
            _ => panic!("poll answered {status}"),
        }
        status
    }

    /// Waits, where it has no queue.
    pub fn wait(&mut self, timeout_ms: u32) -> weft_status {
        // SAFETY: a live stream.
        let status = unsafe { weft_stream_wait(self.handle, timeout_ms) };
        match status {
            WEFT_E_STATE => assert!(self.queue.is_some(), "a wait was refused"),
            WEFT_OK => self.waits = false,
            WEFT_AGAIN => {}
            _ => panic!("wait answered {status}"),
        }
        status
    }

    /// Its figures.
    pub fn stats(&self) -> weft_stream_info {
        // SAFETY: integers only.
        let mut info: weft_stream_info = unsafe { std::mem::zeroed() };
        info.struct_size = size_of::<weft_stream_info>();
        // SAFETY: a live stream.
        assert!(unsafe { weft_stream_stats(self.handle, &mut info) } == WEFT_OK);
        assert!(info.bytes_in == self.sent.len() as u64, "bytes_in");
        assert!(info.bytes_out == self.taken, "bytes_out");
        info
    }

    /// Frees it, after a look at what came out.
    pub fn free(self) {
        self.stats();
        let decoder = &self.decoder;
        assert!(self.sent.starts_with(&decoder.body), "other bytes came out");
        assert!(!decoder.ended() || self.finished, "an end that the owner did not make");
        if self.over == Some(WEFT_DONE) {
            assert!(decoder.ended(), "the end is missing");
            assert!(decoder.body == self.sent, "another body came out");
            assert!(self.seen == self.marks.len(), "one event for each mark");
            BODIES.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: a live stream, which ends here.
        unsafe { weft_stream_free(self.handle) };
    }
}
