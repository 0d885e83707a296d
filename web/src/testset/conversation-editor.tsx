/**
 * A conversation to edit: roles and texts, in order. Whatever else a message has (tool calls, names, files) stays exactly
 * as it is; a message of another form is written as JSON.
 */
import { ArrowDown, ArrowUp, Braces, Plus, Wrench, X } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { isObject } from '@/components/forms/json-schema';
import { focused } from '@/lib/dom';
import { exact } from '@/lib/safe-text';
import { Button, IconButton } from '@/components/button';
import { TextArea } from '@/components/form-fields';
import { JsonInput } from './json-input';
import { type Message, saidIn, textOf, withText } from './said';

const ROLES = ['user', 'assistant', 'system', 'developer', 'tool'];

interface Props {
  messages: readonly Message[];
  onChange: (messages: readonly Message[]) => void;
  /** One message: none can be added or taken away. */
  single?: boolean;
  /** Does one write here at once, in the first message? */
  focus?: boolean;
}

export function ConversationEditor({ messages, onChange, single = false, focus = false }: Props): ReactNode {
  // Messages have no names: these go with them when they move, so that what is half written does, too.
  const [names, setNames] = useState<readonly number[]>(() => messages.map((_, place) => place));
  const keys = names.length === messages.length ? names : messages.map((_, place) => place);
  const become = (next: readonly Message[], named: readonly number[]): void => {
    setNames(named);
    onChange(next);
  };
  const move = (from: number, to: number): void => {
    const [message, name] = [messages[from], keys[from]];
    if (message && name !== undefined) become(messages.toSpliced(from, 1).toSpliced(to, 0, message), keys.toSpliced(from, 1).toSpliced(to, 0, name));
  };
  const add = (): void => become([...messages, { role: messages.at(-1)?.role === 'user' ? 'assistant' : 'user', content: '' }], [...keys, Math.max(-1, ...keys) + 1]);
  return (
    <div className="flex flex-col gap-2">
      {messages.map((message, place) => (
        <MessageEditor
          key={keys[place]}
          message={message}
          place={place}
          focus={focus && place === 0}
          onChange={(next) => onChange(messages.with(place, next))}
          {...(single ? {} : { onRemove: () => become(messages.toSpliced(place, 1), keys.toSpliced(place, 1)) })}
          {...(single || place === 0 ? {} : { onUp: () => move(place, place - 1) })}
          {...(single || place === messages.length - 1 ? {} : { onDown: () => move(place, place + 1) })}
        />
      ))}
      {!single && <Button size="small" look="quiet" className="self-start !px-1.5" onClick={add}><Plus className="size-3.5" /> Add message</Button>}
    </div>
  );
}

interface MessageProps {
  message: Message;
  place: number;
  focus: boolean;
  onChange: (message: Message) => void;
  onRemove?: () => void;
  onUp?: () => void;
  onDown?: () => void;
}

function MessageEditor({ message, place, focus, onChange, onRemove, onUp, onDown }: MessageProps): ReactNode {
  const text = textOf(message);
  const [raw, setRaw] = useState(text === null);
  const [isWrong, setWrong] = useState(false);
  const number = place + 1;
  const role = String(message.role ?? '');
  const calls = saidIn([message])?.[0]?.calls ?? [];
  return (
    <div role="group" aria-label={`Message ${number}`} className="overflow-hidden rounded-lg border bg-surface focus-within:border-accent">
      <div className="flex h-8 items-center gap-0.5 pr-1 pl-1.5">
        <select aria-label={`Role of message ${number}`} value={role} onChange={(event) => onChange({ ...message, role: event.target.value })} className="h-6 cursor-pointer rounded-md bg-transparent px-1 text-xs text-muted hover:bg-sunken">
          {[...new Set([...ROLES, role])].map((one) => <option key={one}>{one}</option>)}
        </select>
        <span className="grow" />
        {text !== null && <IconButton size="small" label={raw ? `Message ${number} as text` : `Message ${number} as JSON`} aria-pressed={raw} disabled={isWrong} onClick={() => setRaw(!raw)}><Braces /></IconButton>}
        {onUp && <IconButton size="small" label={`Move message ${number} up`} onClick={onUp}><ArrowUp /></IconButton>}
        {onDown && <IconButton size="small" label={`Move message ${number} down`} onClick={onDown}><ArrowDown /></IconButton>}
        {onRemove && <IconButton size="small" label={`Remove message ${number}`} onClick={onRemove}><X /></IconButton>}
      </div>
      {raw || text === null ? (
        <div className="px-2 pb-2"><JsonInput label={`Message ${number}, as JSON`} value={message} onWrong={setWrong} onChange={(next) => isObject(next) && onChange(next)} fault={(next) => (isObject(next) && typeof next.role === 'string' ? null : 'A message is an object with a role.')} /></div>
      ) : (
        <TextArea {...(focus ? { ref: focused } : {})} rows={2} dir="auto" aria-label={`Text of message ${number}`} placeholder={calls.length ? 'No text' : `What the ${role} says`} value={text} onChange={(event) => onChange(withText(message, event.target.value))} className="block !min-h-9 !rounded-none !border-0 !py-1 focus-visible:outline-none" />
      )}
      {!raw && calls.map((call, at) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same call may come twice
        <p key={at} className="flex items-start gap-1.5 border-t px-2.5 py-1 font-mono text-[12px]/5 text-muted wrap-anywhere"><Wrench aria-label="Tool call" className="mt-1 size-3 shrink-0" />{exact(call)}</p>
      ))}
    </div>
  );
}
