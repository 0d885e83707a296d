/** The conversation that a row asks with, where a chat is treated as completion: a role and a text per message. */
import { Plus, X } from 'lucide-react';
import type { ReactNode } from 'react';
import { JsonField } from '@/components/forms/controls';
import { isObject } from '@/components/forms/json-schema';
import { Button, IconButton } from '@/components/button';
import { TextArea } from '@/components/form-fields';

const ROLES = ['user', 'assistant', 'system', 'developer'];

interface Message {
  role: string;
  content: string;
}

/** Only what is a role and a text can be edited as such; other messages (files, tool calls) are written as JSON. */
function plain(value: unknown): Message[] | null {
  if (value === undefined) return [];
  if (!Array.isArray(value)) return null;
  const fits = value.every(
    (one) => isObject(one) && typeof one.content === 'string' && ROLES.includes(String(one.role)) && Object.keys(one).every((name) => name === 'role' || name === 'content'),
  );
  return fits ? (value as Message[]) : null;
}

export function MessagesEditor({ value, onChange }: { value: unknown; onChange: (value: unknown) => void }): ReactNode {
  const messages = plain(value);
  if (!messages) {
    return (
      <div>
        <p className="mb-1 text-xs font-medium text-muted">messages</p>
        <JsonField label="messages, as JSON" value={value} onChange={onChange} />
      </div>
    );
  }
  const shown = messages.length ? messages : [{ role: 'user', content: '' }];
  const put = (place: number, what: Partial<Message>): void => onChange(shown.map((one, at) => (at === place ? { ...one, ...what } : one)));
  const last = shown.at(-1);
  return (
    <div className="flex flex-col gap-1.5">
      {shown.map((message, place) => (
        // oxlint-disable-next-line react/no-array-index-key -- these messages have no identity but their place
        <div key={place} className="overflow-hidden rounded-lg border bg-surface transition-colors focus-within:border-accent">
          <div className="flex h-7 items-center justify-between pr-0.5 pl-1">
            <select
              aria-label={`Role of message ${place + 1}`}
              value={message.role}
              onChange={(event) => put(place, { role: event.target.value })}
              className="h-6 cursor-pointer rounded-md bg-transparent px-1 text-xs text-muted hover:bg-sunken"
            >
              {ROLES.map((role) => (
                <option key={role}>{role}</option>
              ))}
            </select>
            {shown.length > 1 && (
              <IconButton
                size="small"
                label={`Remove message ${place + 1}`}
                className="!size-6"
                onClick={() => onChange(shown.filter((_, at) => at !== place))}
              >
                <X />
              </IconButton>
            )}
          </div>
          <TextArea
            rows={1}
            dir="auto"
            aria-label={`Message ${place + 1}`}
            placeholder={message.role === 'user' ? 'What the user says' : `What the ${message.role} says`}
            value={message.content}
            onChange={(event) => put(place, { content: event.target.value })}
            className="block !min-h-8 !rounded-none !border-0 !py-1 focus-visible:outline-none"
          />
        </div>
      ))}
      <Button
        size="small"
        look="quiet"
        className="self-start !px-1.5"
        onClick={() => onChange([...shown, { role: last?.role === 'user' ? 'assistant' : 'user', content: '' }])}
      >
        <Plus className="size-3.5" /> Add message
      </Button>
    </div>
  );
}
