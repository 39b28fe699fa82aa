// What a browser has made of a page; look.py judges it.
(() => {
  const elements = [...document.querySelectorAll("*")];
  const words = (element) =>
    [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "");
  const ground = (element) => {
    const color = element && getComputedStyle(element).backgroundColor;
    return !element || color !== "rgba(0, 0, 0, 0)" ? color : ground(element.parentElement);
  };
  return {
    // The width for which the page was laid out, and the one that it takes.
    window: window.innerWidth,
    width: Math.max(
      document.documentElement.scrollWidth,
      ...elements.map((element) => Math.ceil(element.getBoundingClientRect().right)),
    ),
    elements: elements.map((element) => [element.localName, ...element.getAttributeNames()].join(" ")),
    // Only what is visible.
    shown: document.body.innerText,
    paper: ground(document.body),
    texts: elements
      .filter((element) => document.body.contains(element) && words(element).length > 0)
      .map((element) => {
        const { color, fontSize, opacity } = getComputedStyle(element);
        const text = words(element)[0].data.trim().slice(0, 40);
        return { text, color, ground: ground(element), size: parseFloat(fontSize), opacity: parseFloat(opacity) };
      }),
  };
})()
