/**
 * Editors of conversations and scripts. Unknown fields of messages (tool calls, names, files) are preserved; other
 * forms are edited as JSON.
 */
import { ArrowDown, ArrowUp, Braces, Plus, Wrench, X } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { Button, IconButton } from '@/components/button';
import { TextArea, Select, LabeledField } from '@/components/form-fields';
import { isObject } from '@/components/forms/json-schema';
import { withField } from '@/components/forms/values';
import { focusRef } from '@/lib/dom';
import { capitalize } from '@/lib/format';
import { safeExact } from '@/lib/safe-text';
import { type CellMessage, messagesIn, editableText, withEditedText, isMessages } from './cell-messages';
import { JsonInput } from './json-input';

const ROLES = ['user', 'assistant', 'system', 'developer', 'tool'];

interface Props {
  messages: readonly CellMessage[];
  onChange: (messages: readonly CellMessage[]) => void;
  /** Exactly one message: none can be added or removed. */
  single?: boolean;
  /** Whether the first message gets the focus. */
  focus?: boolean;
}

export function ConversationEditor({ messages, onChange, single = false, focus = false }: Props): ReactNode {
  // Messages have no ids: these keys move with them, so that each keeps its draft.
  const [storedKeys, setStoredKeys] = useState<readonly number[]>(() => messages.map((_, index) => index));
  const keys = storedKeys.length === messages.length ? storedKeys : messages.map((_, index) => index);
  const update = (next: readonly CellMessage[], newKeys: readonly number[]): void => {
    setStoredKeys(newKeys);
    onChange(next);
  };
  const move = (from: number, to: number): void => {
    const [message, key] = [messages[from], keys[from]];
    if (message && key !== undefined)
      update(messages.toSpliced(from, 1).toSpliced(to, 0, message), keys.toSpliced(from, 1).toSpliced(to, 0, key));
  };
  const add = (): void =>
    update(
      [...messages, { role: messages.at(-1)?.role === 'user' ? 'assistant' : 'user', content: '' }],
      [...keys, Math.max(-1, ...keys) + 1],
    );
  return (
    <div className="flex flex-col gap-2">
      {messages.map((message, index) => (
        <MessageEditor
          key={keys[index]}
          message={message}
          index={index}
          focus={focus && index === 0}
          onChange={(next) => onChange(messages.with(index, next))}
          {...(single ? {} : { onRemove: () => update(messages.toSpliced(index, 1), keys.toSpliced(index, 1)) })}
          {...(single || index === 0 ? {} : { onUp: () => move(index, index - 1) })}
          {...(single || index === messages.length - 1 ? {} : { onDown: () => move(index, index + 1) })}
        />
      ))}
      {!single && (
        <Button size="small" variant="quiet" className="self-start px-1.5" onClick={add}>
          <Plus className="size-3.5" /> Add message
        </Button>
      )}
    </div>
  );
}

interface MessageProps {
  message: CellMessage;
  index: number;
  focus: boolean;
  onChange: (message: CellMessage) => void;
  onRemove?: () => void;
  onUp?: () => void;
  onDown?: () => void;
}

function MessageEditor({ message, index, focus, onChange, onRemove, onUp, onDown }: MessageProps): ReactNode {
  const text = editableText(message);
  const [showJson, setShowJson] = useState(text === null);
  const [isInvalid, setInvalid] = useState(false);
  const number = index + 1;
  const role = String(message.role ?? '');
  const calls = messagesIn([message])?.[0]?.calls ?? [];
  return (
    <div
      role="group"
      aria-label={`Message ${number}`}
      className="overflow-hidden rounded-lg border bg-surface focus-within:border-accent"
    >
      <div className="flex h-8 items-center gap-0.5 pr-1 pl-1.5">
        <select
          aria-label={`Role of message ${number}`}
          value={role}
          onChange={(event) => onChange({ ...message, role: event.target.value })}
          className="h-6 cursor-pointer rounded-md bg-transparent px-1 text-xs text-muted hover:bg-sunken"
        >
          {[...new Set([...ROLES, role])].map((option) => (
            <option key={option}>{option}</option>
          ))}
        </select>
        <span className="grow" />
        {text !== null && (
          <IconButton
            size="small"
            label={showJson ? `Message ${number} as text` : `Message ${number} as JSON`}
            aria-pressed={showJson}
            disabled={isInvalid}
            onClick={() => setShowJson(!showJson)}
          >
            <Braces />
          </IconButton>
        )}
        {onUp && (
          <IconButton size="small" label={`Move message ${number} up`} onClick={onUp}>
            <ArrowUp />
          </IconButton>
        )}
        {onDown && (
          <IconButton size="small" label={`Move message ${number} down`} onClick={onDown}>
            <ArrowDown />
          </IconButton>
        )}
        {onRemove && (
          <IconButton size="small" label={`Remove message ${number}`} onClick={onRemove}>
            <X />
          </IconButton>
        )}
      </div>
      {showJson || text === null ? (
        <div className="px-2 pb-2">
          <JsonInput
            label={`Message ${number}, as JSON`}
            value={message}
            onValidityChange={setInvalid}
            onChange={(next) => isObject(next) && onChange(next)}
            validate={(next) =>
              isObject(next) && typeof next.role === 'string' ? null : 'A message must be an object with a role.'
            }
          />
        </div>
      ) : (
        <TextArea
          {...(focus ? { ref: focusRef } : {})}
          rows={2}
          dir="auto"
          aria-label={`Text of message ${number}`}
          placeholder={calls.length ? 'No text' : `${capitalize(role)} message`}
          value={text}
          onChange={(event) => onChange(withEditedText(message, event.target.value))}
          className="block min-h-9 rounded-none border-0 py-1 focus-visible:outline-none"
        />
      )}
      {!showJson &&
        calls.map((call, callIndex) => (
          <p
            // oxlint-disable-next-line react/no-array-index-key -- the same call may come twice
            key={callIndex}
            className="flex items-start gap-1.5 border-t px-2.5 py-1 font-mono text-[12px]/5 text-muted wrap-anywhere"
          >
            <Wrench aria-label="Tool call" className="mt-1 size-3 shrink-0" />
            {safeExact(call)}
          </p>
        ))}
    </div>
  );
}

type Script = Readonly<Record<string, unknown>> & { turns: readonly CellMessage[] };
const SPEAKERS = ['user', 'assistant', 'simulate'] as const;
const SPEAKER_LABELS = { user: 'User says', assistant: 'Fixed answer', simulate: 'Simulated user' };
const CHECKS: ReadonlySet<string> = new Set([
  'text',
  'tools',
  'order',
  'json',
  'data',
  'finish',
  'refusal',
  'max_seconds',
  'max_tokens',
  'judge',
]);

export const NEW_SCRIPT: Script = { turns: [{ user: '' }] };

export function ScriptEditor({ script, onChange }: { script: Script; onChange: (script: Script) => void }): ReactNode {
  const [storedKeys, setStoredKeys] = useState<readonly number[]>(() => script.turns.map((_, index) => index));
  const { turns } = script;
  const keys = storedKeys.length === turns.length ? storedKeys : turns.map((_, index) => index);
  const update = (next: readonly CellMessage[], newKeys: readonly number[]): void => {
    setStoredKeys(newKeys);
    onChange({ ...script, turns: next });
  };
  const move = (from: number, to: number): void => {
    const [turn, key] = [turns[from], keys[from]];
    if (turn && key !== undefined)
      update(turns.toSpliced(from, 1).toSpliced(to, 0, turn), keys.toSpliced(from, 1).toSpliced(to, 0, key));
  };
  const setField = (name: string, value: unknown): void => onChange({ ...withField(script, name, value), turns });
  const start = script.start ?? [];
  return (
    <div className="flex flex-col gap-3">
      <details open={Array.isArray(start) && start.length > 0}>
        <summary className="cursor-pointer text-[13px] text-muted">Before the first turn</summary>
        <div className="pt-2">
          {Array.isArray(start) && (start.length === 0 || isMessages(start)) ? (
            <ConversationEditor
              messages={start as CellMessage[]}
              onChange={(next) => setField('start', next.length ? next : undefined)}
            />
          ) : (
            <JsonInput
              label="Messages before the first turn as JSON"
              value={start}
              onChange={(next) => setField('start', next)}
            />
          )}
        </div>
      </details>
      {turns.map((turn, index) => (
        <TurnEditor
          key={keys[index]}
          turn={turn}
          number={index + 1}
          onChange={(next) => onChange({ ...script, turns: turns.with(index, next) })}
          {...(turns.length > 1 ? { onRemove: () => update(turns.toSpliced(index, 1), keys.toSpliced(index, 1)) } : {})}
          {...(index > 0 ? { onUp: () => move(index, index - 1) } : {})}
          {...(index < turns.length - 1 ? { onDown: () => move(index, index + 1) } : {})}
        />
      ))}
      <Button
        size="small"
        variant="quiet"
        className="self-start px-1.5"
        onClick={() => update([...turns, { user: '' }], [...keys, Math.max(-1, ...keys) + 1])}
      >
        <Plus className="size-3.5" /> Add turn
      </Button>
      <div className="grid gap-3 border-t pt-3">
        <div className="flex flex-col gap-1">
          <span className="text-[13px] text-muted">Goal of the conversation (JSON)</span>
          <JsonInput
            label="Goal of the conversation (JSON)"
            value={script.expect}
            placeholder={'{"goal": "…"}'}
            onChange={(next) => setField('expect', next)}
          />
        </div>
        <div className="flex flex-col gap-1">
          <span className="text-[13px] text-muted">Tool results for all turns (JSON)</span>
          <JsonInput
            label="Tool results for all turns (JSON)"
            value={script.tool_results}
            placeholder={'{"search": {"output": …}}'}
            onChange={(next) => setField('tool_results', next)}
          />
        </div>
        <LabeledField label="When a turn fails">
          <Select
            value={String(script.stop ?? 'never')}
            onChange={(event) => setField('stop', event.target.value)}
            className="w-fit"
          >
            <option value="never">Continue with the next turn</option>
            <option value="on-failure">Stop</option>
          </Select>
        </LabeledField>
      </div>
    </div>
  );
}

interface TurnProps {
  turn: CellMessage;
  number: number;
  onChange: (turn: CellMessage) => void;
  onRemove?: () => void;
  onUp?: () => void;
  onDown?: () => void;
}

function TurnEditor({ turn, number, onChange, onRemove, onUp, onDown }: TurnProps): ReactNode {
  const speaker = SPEAKERS.find((candidate) => candidate in turn) ?? 'user';
  const content = turn[speaker];
  const [showExpectations, setShowExpectations] = useState('expect' in turn || 'tool_results' in turn);
  const setSpeaker = (next: (typeof SPEAKERS)[number]): void => {
    const { [speaker]: before, ...others } = turn;
    const text = typeof before === 'string' ? before : '';
    onChange({ [next]: next === 'simulate' ? { workflow: '', goal: text, max_turns: 8 } : text, ...others });
  };
  return (
    <div
      role="group"
      aria-label={`Turn ${number}`}
      className="overflow-hidden rounded-lg border bg-surface focus-within:border-accent"
    >
      <div className="flex h-8 items-center gap-0.5 pr-1 pl-1.5">
        <select
          aria-label={`Speaker in turn ${number}`}
          value={speaker}
          onChange={(event) => setSpeaker(event.target.value as typeof speaker)}
          className="h-6 cursor-pointer rounded-md bg-transparent px-1 text-xs text-muted hover:bg-sunken"
        >
          {SPEAKERS.map((option) => (
            <option key={option} value={option}>
              {SPEAKER_LABELS[option]}
            </option>
          ))}
        </select>
        <span className="grow" />
        {onUp && (
          <IconButton size="small" label={`Move turn ${number} up`} onClick={onUp}>
            <ArrowUp />
          </IconButton>
        )}
        {onDown && (
          <IconButton size="small" label={`Move turn ${number} down`} onClick={onDown}>
            <ArrowDown />
          </IconButton>
        )}
        {onRemove && (
          <IconButton size="small" label={`Remove turn ${number}`} onClick={onRemove}>
            <X />
          </IconButton>
        )}
      </div>
      {typeof content === 'string' ? (
        <TextArea
          rows={2}
          dir="auto"
          aria-label={`Text of turn ${number}`}
          value={content}
          onChange={(event) => onChange({ ...turn, [speaker]: event.target.value })}
          className="block min-h-9 rounded-none border-0 py-1 focus-visible:outline-none"
        />
      ) : (
        <div className="px-2 pb-2">
          <JsonInput
            label={`Turn ${number} as JSON`}
            value={content}
            onChange={(next) => next !== undefined && onChange({ ...turn, [speaker]: next })}
          />
        </div>
      )}
      {speaker !== 'assistant' && (
        <div className="border-t px-2 py-1.5">
          {showExpectations ? (
            <div className="flex flex-col gap-2">
              <span className="text-xs text-muted">Expectations for the answer</span>
              <JsonInput
                label={`Expectations for turn ${number} (JSON)`}
                value={turn.expect}
                placeholder={'{"text": {"contains": "…"}, "tools": "none"}'}
                validate={expectationError}
                onChange={(next) => onChange(withField(turn, 'expect', next))}
              />
              <span className="text-xs text-muted">Tool results for this turn</span>
              <JsonInput
                label={`Tool results for turn ${number} (JSON)`}
                value={turn.tool_results}
                placeholder={'{"search": {"output": …}}'}
                onChange={(next) => onChange(withField(turn, 'tool_results', next))}
              />
            </div>
          ) : (
            <Button size="small" variant="quiet" className="px-1.5" onClick={() => setShowExpectations(true)}>
              <Plus className="size-3.5" /> Add expectations
            </Button>
          )}
        </div>
      )}
    </div>
  );
}

function expectationError(value: unknown): string | null {
  if (!isObject(value)) return 'Expectations must be an object.';
  const unknownName = Object.keys(value).find((name) => !CHECKS.has(name));
  return unknownName === undefined ? null : `Unknown check “${unknownName}”. Available: ${[...CHECKS].join(', ')}.`;
}
