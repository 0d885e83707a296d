/** API keys: list, create, revoke. */
import { queryOptions, useQuery, useMutation } from '@tanstack/react-query';
import { KeyRound, Trash2 } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { api, type Schemas } from '@/api/client';
import { queryClient } from '@/api/queries';
import { sessionQuery } from '@/app/auth';
import { Button, IconButton, CopyButton } from '@/components/button';
import { askConfirmation } from '@/components/confirm-dialog';
import { Dialog } from '@/components/dialog';
import { Select, TextField, LabeledField } from '@/components/form-fields';
import { Badge, ErrorMessage, Spinner } from '@/components/status';
import { showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { focusRef } from '@/lib/dom';
import { formatDateTime, formatTimeAgo, daysFromNow } from '@/lib/format';
import { SettingsSection } from './sections';

type Key = Schemas['KeyRow'];

const keysQuery = () =>
  queryOptions({
    queryKey: ['keys'],
    queryFn: ({ signal }) => api('get', '/api/keys', { query: { limit: 200 }, signal }),
  });

export function KeysSection(): ReactNode {
  const { data, error } = useQuery(keysQuery());
  const [isCreating, setCreating] = useState(false);
  const close = () => {
    setCreating(false);
    void queryClient.invalidateQueries({ queryKey: ['keys'] });
  };
  const createButton = (
    <Button size="small" disabled={!data} onClick={() => setCreating(true)}>
      <KeyRound aria-hidden className="size-3.5" /> New key
    </Button>
  );
  return (
    <SettingsSection title="API keys" trailing={createButton}>
      {error && <ErrorMessage error={error} />}
      {!data && !error && <Spinner />}
      {data?.data.length === 0 && (
        <p className="text-muted">
          No API keys exist. The server accepts requests from this machine only, without authentication.
        </p>
      )}
      {data && data.data.length > 0 && (
        <ul className="divide-y divide-line rounded-xl border bg-surface">
          {data.data.map((key) => (
            <KeyRow key={key.id} row={key} />
          ))}
        </ul>
      )}
      {isCreating && <NewKeyDialog onClose={close} />}
    </SettingsSection>
  );
}

function KeyRow({ row }: { row: Key }): ReactNode {
  const inactive = isInactive(row);
  return (
    <li className="flex min-h-14 items-center gap-3 px-4 py-2">
      <div className={cn('min-w-0 grow', inactive && 'opacity-60')}>
        <div className="flex min-w-0 flex-wrap items-center gap-x-2 gap-y-1">
          <span className="max-w-full truncate font-medium" title={row.name} dir="auto">
            {row.name}
          </span>
          {row.scopes.map((scope) => (
            <Badge key={scope} tone={scope === 'admin' ? 'warn' : 'plain'}>
              {scope}
            </Badge>
          ))}
          {row.revoked_at ? <Badge tone="bad">Revoked</Badge> : inactive && <Badge tone="bad">Expired</Badge>}
        </div>
        <div className="text-xs leading-5 text-muted">
          <span className="font-mono">{row.id}</span> · {describeKey(row)}
        </div>
      </div>
      {!row.revoked_at && (
        <IconButton label={`Revoke ${row.name}`} onClick={() => void revoke(row).catch(showError)}>
          <Trash2 />
        </IconButton>
      )}
    </li>
  );
}

const isInactive = ({ revoked_at: revoked, expires_at: expiresAt }: Key): boolean =>
  revoked !== null || (expiresAt !== null && Date.parse(expiresAt) < Date.now());

function describeKey({
  created_at: createdAt,
  expires_at: expiresAt,
  last_used_at: lastUsedAt,
  revoked_at: revoked,
}: Key): string {
  return [
    `created ${formatTimeAgo(createdAt)}`,
    lastUsedAt ? `used ${formatTimeAgo(lastUsedAt)}` : 'never used',
    ...(revoked
      ? [`revoked ${formatTimeAgo(revoked)}`]
      : [expiresAt ? `expires ${formatDateTime(expiresAt)}` : 'never expires']),
  ].join(' · ');
}

async function revoke(key: Key): Promise<void> {
  const confirmed = await askConfirmation({
    title: `Revoke ${key.name}?`,
    text: 'Requests with this key will be rejected and its open streams closed. This cannot be undone.',
    act: 'Revoke',
    danger: true,
  });
  if (!confirmed) return;
  await api('delete', '/api/keys/{key_id}', { path: { key_id: key.id } });
  await queryClient.invalidateQueries({ queryKey: ['keys'] });
}

type Scope = Schemas['KeyRow']['scopes'][number];

const SCOPES: { scope: Scope; text: string }[] = [
  { scope: 'invoke', text: 'call workflows, create and edit threads' },
  { scope: 'read', text: 'view stored data; the web interface needs invoke and read' },
  { scope: 'admin', text: 'full access, including API keys and connections' },
];
const EXPIRIES: Record<string, number | null> = {
  never: null,
  '1 day': 1,
  '30 days': 30,
  '90 days': 90,
  '1 year': 365,
};

/** Create a key; shows the secret once. */
export function NewKeyDialog({ onClose }: { onClose: () => void }): ReactNode {
  const { data } = useQuery(sessionQuery());
  // Once the first key exists, every request needs a key, so log in with it.
  const isFirst = data?.key === null;
  const create = useMutation({ mutationFn: (request: KeyRequest) => createKey(request, isFirst) });
  return (
    <Dialog open onClose={onClose} title={create.data ? 'Your new key' : 'New key'}>
      {create.data ? (
        <NewSecret secret={create.data.secret} onClose={onClose} />
      ) : (
        <KeyForm
          isFirst={isFirst}
          error={create.error}
          busy={create.isPending}
          onCreate={create.mutate}
          onClose={onClose}
        />
      )}
    </Dialog>
  );
}

interface KeyRequest {
  name: string;
  scopes: Scope[];
  expires_at: string | null;
}

async function createKey(request: KeyRequest, isFirst: boolean): Promise<Schemas['CreatedKey']> {
  const key = await api('post', '/api/keys', { body: request });
  if (isFirst) {
    await api('post', '/api/session', { body: { key: key.secret } });
    await queryClient.invalidateQueries({ queryKey: ['session'] });
  }
  return key;
}

interface FormProps {
  isFirst: boolean;
  error: Error | null;
  busy: boolean;
  onCreate: (request: KeyRequest) => void;
  onClose: () => void;
}

function KeyForm({ isFirst, error, busy, onCreate, onClose }: FormProps): ReactNode {
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<readonly Scope[]>(isFirst ? ['admin'] : ['invoke', 'read']);
  const [expiry, setExpiry] = useState('never');
  const toggle = (scope: Scope) =>
    setScopes(scopes.includes(scope) ? scopes.filter((other) => other !== scope) : [...scopes, scope]);
  return (
    <form
      className="flex flex-col gap-4 pt-1"
      onSubmit={(event) => {
        event.preventDefault();
        onCreate({ name: name.trim(), scopes: [...scopes], expires_at: daysFromNow(EXPIRIES[expiry] ?? null) });
      }}
    >
      {isFirst && (
        <p className="rounded-lg bg-warn-soft px-3 py-2 text-warn">
          Once a key exists, every request needs one, even from this machine. You will be logged in with this key, so it
          needs the admin scope. Store it safely.
        </p>
      )}
      <LabeledField label="Name">
        <TextField
          ref={focusRef}
          required
          maxLength={100}
          placeholder="laptop"
          dir="auto"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </LabeledField>
      <fieldset className="flex flex-col gap-1.5">
        <legend className="pb-1 font-medium">Scopes</legend>
        {SCOPES.map(({ scope, text }) => (
          // oxlint-disable-next-line jsx-a11y/label-has-associated-control -- the field is its child
          <label key={scope} className="flex items-start gap-2">
            <input
              type="checkbox"
              className="mt-0.5 size-4 shrink-0 accent-(--accent)"
              checked={scopes.includes(scope)}
              disabled={isFirst}
              onChange={() => toggle(scope)}
            />
            <span>
              <code className="font-mono text-[13px]">{scope}</code> <span className="text-muted">{text}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <LabeledField label="Expires">
        <Select value={expiry} onChange={(event) => setExpiry(event.target.value)}>
          {Object.keys(EXPIRIES).map((end) => (
            <option key={end} value={end}>
              {end === 'never' ? 'Never' : `After ${end}`}
            </option>
          ))}
        </Select>
      </LabeledField>
      {error && <ErrorMessage error={error} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" variant="main" disabled={busy || !name.trim() || scopes.length === 0}>
          Create key
        </Button>
      </div>
    </form>
  );
}

const NewSecret = ({ secret, onClose }: { secret: string; onClose: () => void }): ReactNode => (
  <div className="flex flex-col gap-4 pt-1">
    <p className="text-muted">Copy this key now. It is shown only once.</p>
    <div className="flex items-center gap-1 rounded-lg border bg-sunken py-1.5 pr-1.5 pl-3">
      <code className="min-w-0 grow font-mono text-[13px] wrap-anywhere select-all">{secret}</code>
      <CopyButton text={secret} label="Copy key" />
    </div>
    <div className="flex justify-end">
      <Button variant="main" onClick={onClose}>
        Done
      </Button>
    </div>
  </div>
);
