/* A worker for pages that are opened from the disk, where browsers start none: the script runs in a hidden frame.
   The site's search needs it; its name is the one that the search asks for. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = this.onerror = null;
      this.heard = event => {
        if (event.source !== this.frame.contentWindow) return;
        const copy = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(copy);
        if (this.onmessage) this.onmessage(copy);
      };
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      addEventListener("message", this.heard);
      const page = this.frame.contentDocument;
      page.open();
      page.write(
        '<script>postMessage = message => parent.postMessage(message, "*");' +
          "importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, failed) => {" +
          'const script = document.createElement("script"); script.src = url; script.onload = done;' +
          "script.onerror = failed; document.body.append(script); })), Promise.resolve());</scr" + "ipt>" +
          `<script src="${new URL(url, location.href)}"></scr` + "ipt>"
      );
      page.close();
      this.ready = new Promise(done => { this.frame.onload = done; });
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      removeEventListener("message", this.heard);
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
