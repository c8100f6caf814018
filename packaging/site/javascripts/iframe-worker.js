// The search box runs in a worker, and browsers start no worker for pages that are read from files. On such a page this
// class takes the worker's place: it runs the worker's script in a hidden frame and passes messages in both directions.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      this.loaded = new Promise((loaded) => script.addEventListener("load", loaded));
      script.src = url;
      frame.contentDocument.body.append(script);
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
