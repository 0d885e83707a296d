/** Who wants to hear that something changed; `subscribe` is what React's useSyncExternalStore takes. */
export class Listeners {
  #all = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#all.add(listener);
    return () => this.#all.delete(listener);
  };

  tell(): void {
    for (const listener of this.#all) listener();
  }
}
