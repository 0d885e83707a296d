/**
 * What can be done now, by name and by keys. A view registers its commands while it is shown (`useCommand`); the palette
 * lists them and the keyboard runs them. The store knows no React.
 */
import { useEffect, useEffectEvent, useSyncExternalStore } from 'react';
import { Listeners } from '@/lib/listeners';
import { matches, writes, type Pressed } from './keys';

export interface Command {
  id: string;
  title: string;
  /** The heading in the palette and in the list of shortcuts. */
  group: string;
  /** As in keys.ts: `mod+.`, `alt+n`, `?`. */
  keys?: string;
  run: () => void;
  /** Also while a dialog is open. */
  everywhere?: boolean;
}

/** Where the keyboard is when a key is pressed. */
export interface Place {
  typing: boolean;
  dialog: boolean;
}

export class Commands {
  #all: readonly Command[] = [];
  #shown: readonly Command[] = [];
  #listeners = new Listeners();

  /** Of two with the same id the later one counts, until it leaves. */
  add(command: Command): () => void {
    this.#become([...this.#all, command]);
    return () => this.#become(this.#all.filter((one) => one !== command));
  }

  /** All that can be done now, in the order of registering. */
  list = (): readonly Command[] => this.#shown;

  subscribe = this.#listeners.subscribe;

  /** The command that these keys mean here. */
  meant(pressed: Pressed, { typing, dialog }: Place): Command | undefined {
    return this.#shown.findLast(
      ({ keys, everywhere }) => keys && (everywhere || !dialog) && !(typing && writes(keys)) && matches(keys, pressed),
    );
  }

  #become(all: readonly Command[]): void {
    this.#all = all;
    this.#shown = [...new Map(all.map((command) => [command.id, command])).values()];
    this.#listeners.tell();
  }
}

export const commands = new Commands();

/** Offer a command while this component is shown; nothing (`null`, `false`) while it cannot be done. */
export function useCommand(command: Command | null | false | undefined): void {
  const run = useEffectEvent(() => command && command.run());
  const { id, title, group, keys, everywhere } = command || {};
  useEffect(() => {
    if (id === undefined || title === undefined || group === undefined) return undefined;
    return commands.add({ id, title, group, run, ...(keys ? { keys } : {}), ...(everywhere ? { everywhere } : {}) });
  }, [id, title, group, keys, everywhere]);
}

export const useCommands = (): readonly Command[] => useSyncExternalStore(commands.subscribe, commands.list);

/** Let the keyboard run commands. */
export function listenForKeys(): () => void {
  window.addEventListener('keydown', onKey);
  return () => window.removeEventListener('keydown', onKey);
}

/** Not while an input method composes (some browsers say so only by the old code), and not what somebody has dealt with already. */
function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || event.keyCode === 229 || event.repeat) return;
  const command = commands.meant(event, placeOf(event.target));
  if (!command) return;
  event.preventDefault();
  command.run();
}

function placeOf(target: EventTarget | null): Place {
  const element = target instanceof HTMLElement ? target : null;
  return {
    typing: element !== null && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName)),
    dialog: Boolean(element?.closest('[role=dialog],[role=alertdialog],[role=menu]')),
  };
}
