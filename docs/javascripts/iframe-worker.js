/* Search without a server: a page that was opened from a folder may start no Worker, so its script runs in a hidden frame.

   The frame is given what a Worker's script expects (postMessage, onmessage, importScripts); messages pass through a
   MessageChannel. Nothing happens where pages come from a server. */
"use strict";

if (location.protocol === "file:") {
  window.Worker = class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      const base = new URL(url, location.href);
      const channel = new MessageChannel();
      this.port = channel.port1;
      this.port.onmessage = (event) => {
        const copy = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(copy);
        if (this.onmessage) this.onmessage(copy);
      };
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      const page = frame.contentDocument;
      const load = (address) =>
        new Promise((resolve, reject) => {
          const script = page.createElement("script");
          script.src = new URL(address, base);
          script.onload = resolve;
          script.onerror = () => reject(new Error(`cannot load ${script.src}`));
          page.body.append(script);
        });
      inside.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => load(address)), Promise.resolve());
      inside.postMessage = (data) => channel.port2.postMessage(data);
      const ready = load(base);
      channel.port2.onmessage = (event) =>
        ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data: event.data })));
      this.frame = frame;
    }

    postMessage(data) {
      this.port.postMessage(data);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
