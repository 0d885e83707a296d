/** Services elsewhere: which are connected, how one is, and how it is let go. */
import { queryOptions } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '@/api/client';
import { queryClient } from '@/api/queries';
import type { Workflow } from '@/api/types';
import { askYes } from '@/components/confirm-dialog';
import { tellError } from '@/components/toast';

export const connections = () =>
  queryOptions({
    queryKey: ['connections'],
    queryFn: ({ signal }) => api('get', '/api/connections', { query: { limit: 200 }, signal }),
  });

export type Dialect = 'invoke' | 'run' | 'responses' | 'chat-completions';

export interface Wanted {
  url: string;
  name: string;
  /** Not said: the service is asked. */
  isChat: boolean | null;
  dialect: Dialect | null;
  model: string;
}

/** Asks the service what it is; unless that is all (`dry`), it is served from now on. */
export async function connect({ url, name, isChat, dialect, model }: Wanted, dry: boolean): Promise<Workflow> {
  const body = {
    url: url.trim(),
    ...(name.trim() ? { name: name.trim() } : {}),
    ...(isChat === null ? {} : { is_chat: isChat }),
    ...(dialect === null ? {} : { dialect }),
    ...(model.trim() ? { model: model.trim() } : {}),
    dry_run: dry,
  };
  const workflow = await api('post', '/api/connections', { body });
  if (!dry) await changed();
  return workflow;
}

/** Asks first; says whether it is gone. */
export async function disconnect(name: string): Promise<boolean> {
  const sure = await askYes({
    title: `Disconnect ${name}?`,
    text: 'It is no longer served here. Its threads stay readable.',
    act: 'Disconnect',
    danger: true,
  });
  if (!sure) return false;
  await api('delete', '/api/connections/{name}', { path: { name } });
  await changed();
  return true;
}

/** Asks a connected service again what it is. */
export async function refresh(name: string): Promise<Workflow> {
  const workflow = await api('post', '/api/workflows/{name}/refresh', { path: { name } });
  queryClient.setQueryData(['workflow', name], workflow);
  await changed();
  return workflow;
}

const changed = () =>
  Promise.all([
    queryClient.invalidateQueries({ queryKey: ['workflows'] }),
    queryClient.invalidateQueries({ queryKey: ['connections'] }),
  ]);

/** Whether the service is being asked again what it is, and the function that asks it. */
export function useRefresh(name: string): [boolean, () => void] {
  const [isRefreshing, setRefreshing] = useState(false);
  const start = () => {
    setRefreshing(true);
    refresh(name)
      .catch(tellError)
      .finally(() => setRefreshing(false));
  };
  return [isRefreshing, start];
}
